"""Tomorrow's temperature from today's numbers: a regression with a mean absolute error beside the loss."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)
days = rng.normal(size=(500, 5)).astype("float32")
temperature = (days @ np.array([1.0, -0.5, 0.25, 0.0, 2.0], dtype="float32"))[:, None]

normalise = layers.Normalization()
normalise.adapt(days[:400])
model = keras.Sequential([normalise, layers.Dense(32, activation="relu"), layers.Dense(1)])
schedule = keras.optimizers.schedules.ExponentialDecay(1e-2, decay_steps=50, decay_rate=0.9)
model.compile(optimizer=keras.optimizers.Adam(schedule), loss="mse", metrics=["mae"])
model.fit(days[:400], temperature[:400], epochs=3, validation_data=(days[400:], temperature[400:]), verbose=2)
model.save("temperature.keras")
