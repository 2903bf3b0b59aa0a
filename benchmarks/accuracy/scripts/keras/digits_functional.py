"""Small pictures of digits with the functional API, one-hot labels, callbacks that watch the validation."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)
digits = rng.integers(0, 10, size=400)
images = rng.random((400, 8, 8, 1)).astype("float32") * 0.3
images[np.arange(400), digits % 8, digits // 2] = 1.0
targets = keras.utils.to_categorical(digits, num_classes=10)
order = rng.permutation(len(images))
images, targets = images[order], targets[order]

inputs = keras.Input(shape=(8, 8, 1))
hidden = layers.Conv2D(8, 3, activation="relu")(inputs)
hidden = layers.GlobalAveragePooling2D()(hidden)
hidden = layers.Dense(32, activation="relu")(hidden)
outputs = layers.Dense(10, activation="softmax")(hidden)
model = keras.Model(inputs, outputs)

model.compile(
    optimizer=keras.optimizers.RMSprop(1e-3),
    loss="categorical_crossentropy",
    metrics=["accuracy", keras.metrics.TopKCategoricalAccuracy(k=3)],
)
model.fit(
    images[:320],
    targets[:320],
    batch_size=32,
    epochs=3,
    validation_data=(images[320:], targets[320:]),
    callbacks=[
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("digits.keras", monitor="val_accuracy", save_best_only=True),
    ],
    verbose=2,
)
