"""Classes of flowers by four numbers: a Sequential model with logits and a loss that knows it."""

import keras
import numpy as np
from keras import layers
from sklearn.model_selection import train_test_split

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
labels = rng.integers(0, 3, size=300)
features = rng.normal(size=(300, 4)) + labels[:, None]
x_train, x_test, y_train, y_test = train_test_split(
    features.astype("float32"), labels, test_size=0.2, random_state=3, stratify=labels
)

model = keras.Sequential(
    [keras.Input(shape=(4,)), layers.Dense(16, activation="relu"), layers.Dropout(0.1), layers.Dense(3)]
)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-2),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(x_train, y_train, batch_size=32, epochs=3, validation_data=(x_test, y_test), verbose=2)
print(model.evaluate(x_test, y_test, verbose=0))
model.save("flowers.keras")
