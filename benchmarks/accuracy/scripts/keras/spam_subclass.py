"""Spam or not, with a model written as a class: one probability as output."""

import keras
import numpy as np


class Spam(keras.Model):
    def __init__(self, words):
        super().__init__()
        self.embedding = keras.layers.Embedding(words, 8)
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.dropout = keras.layers.Dropout(0.2)
        self.output_layer = keras.layers.Dense(1, activation="sigmoid")

    def call(self, inputs, training=False):
        hidden = self.pool(self.embedding(inputs))
        return self.output_layer(self.dropout(hidden, training=training))


keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
mails = rng.integers(0, 50, size=(300, 12))
spam = (mails[:, 0] > 25).astype("float32")

model = Spam(50)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
model.fit(mails, spam, epochs=2, batch_size=30, validation_split=0.2, verbose=2)
model.save_weights("spam.weights.h5")
