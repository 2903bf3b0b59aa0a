#!/usr/bin/env python
# coding: utf-8

# # Flowers with EfficientNet
# Two stages: train the new head first, then unfreeze the top of the backbone.

# In[1]:


import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from sklearn.metrics import classification_report
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(42)

IMG_SIZE = (224, 224)
BATCH = 32
DATA_DIR = "data/flowers/train"
TEST_DIR = "data/flowers/test"


# In[2]:


train_ds = keras.utils.image_dataset_from_directory(
    DATA_DIR, validation_split=0.2, subset="training", seed=42, image_size=IMG_SIZE, batch_size=BATCH
)
val_ds = keras.utils.image_dataset_from_directory(
    DATA_DIR, validation_split=0.2, subset="validation", seed=42, image_size=IMG_SIZE, batch_size=BATCH
)
test_ds = keras.utils.image_dataset_from_directory(
    TEST_DIR, shuffle=False, image_size=IMG_SIZE, batch_size=BATCH
)

class_names = train_ds.class_names
num_classes = len(class_names)
print(class_names)


# In[3]:


augment = keras.Sequential(
    [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
    ],
    name="augment",
)

train_ds = train_ds.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.cache().prefetch(tf.data.AUTOTUNE)
test_ds = test_ds.prefetch(tf.data.AUTOTUNE)


# In[4]:


backbone = keras.applications.EfficientNetB0(include_top=False, weights="imagenet", input_shape=IMG_SIZE + (3,))
backbone.trainable = False

inputs = keras.Input(shape=IMG_SIZE + (3,))
x = backbone(inputs, training=False)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(num_classes, activation="softmax")(x)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.summary()


# In[5]:


head_history = model.fit(train_ds, validation_data=val_ds, epochs=5)


# In[6]:


backbone.trainable = True
for layer in backbone.layers[:-40]:
    layer.trainable = False

model.compile(
    optimizer=keras.optimizers.Adam(1e-5),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)

callbacks = [
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True),
    keras.callbacks.ModelCheckpoint("flowers_best.keras", monitor="val_accuracy", mode="max", save_best_only=True),
]
tune_history = model.fit(train_ds, validation_data=val_ds, epochs=15, callbacks=callbacks)


# In[7]:


acc = head_history.history["accuracy"] + tune_history.history["accuracy"]
val_acc = head_history.history["val_accuracy"] + tune_history.history["val_accuracy"]
plt.plot(acc, label="train")
plt.plot(val_acc, label="validation")
plt.axvline(len(head_history.history["accuracy"]) - 1, color="gray")
plt.legend()
plt.savefig("flowers_curves.png")


# In[8]:


best = keras.models.load_model("flowers_best.keras")
test_loss, test_acc = best.evaluate(test_ds)
print(f"test accuracy {test_acc:.3f}")

y_prob = best.predict(test_ds)
y_pred = np.argmax(y_prob, axis=1)
y_true = np.concatenate([y.numpy() for _, y in test_ds])
print(classification_report(y_true, y_pred, target_names=class_names))
