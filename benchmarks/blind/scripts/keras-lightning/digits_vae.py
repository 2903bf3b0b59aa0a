"""Variational autoencoder for digits, Keras 3, with its own train_step."""
import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

LATENT = 8


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * noise


def make_encoder():
    image = keras.Input((28, 28, 1))
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(image)
    x = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    mean = layers.Dense(LATENT)(x)
    log_var = layers.Dense(LATENT)(x)
    return keras.Model(image, [mean, log_var, Sampling()([mean, log_var])], name="encoder")


def make_decoder():
    code = keras.Input((LATENT,))
    x = layers.Dense(7 * 7 * 64, activation="relu")(code)
    x = layers.Reshape((7, 7, 64))(x)
    x = layers.Conv2DTranspose(64, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu")(x)
    image = layers.Conv2D(1, 3, padding="same", activation="sigmoid")(x)
    return keras.Model(code, image, name="decoder")


class DigitVAE(keras.Model):
    def __init__(self, encoder, decoder, beta=1.0, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.decoder = decoder
        self.beta = beta
        self.total_tracker = keras.metrics.Mean(name="loss")
        self.rebuild_tracker = keras.metrics.Mean(name="rebuild")
        self.kl_tracker = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.total_tracker, self.rebuild_tracker, self.kl_tracker]

    def call(self, images):
        return self.decoder(self.encoder(images)[0])

    def losses_of(self, images, training):
        mean, log_var, code = self.encoder(images, training=training)
        rebuilt = self.decoder(code, training=training)
        pixel = keras.losses.binary_crossentropy(images, rebuilt)
        rebuild = ops.mean(ops.sum(pixel, axis=(1, 2)))
        kl = -0.5 * ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=1)
        kl = ops.mean(kl)
        return rebuild + self.beta * kl, rebuild, kl

    def track(self, total, rebuild, kl):
        self.total_tracker.update_state(total)
        self.rebuild_tracker.update_state(rebuild)
        self.kl_tracker.update_state(kl)
        return {m.name: m.result() for m in self.metrics}

    def train_step(self, images):
        with tf.GradientTape() as tape:
            total, rebuild, kl = self.losses_of(images, training=True)
        grads = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply(grads, self.trainable_weights)
        return self.track(total, rebuild, kl)

    def test_step(self, images):
        return self.track(*self.losses_of(images, training=False))


def load_digits():
    (x_train, _), (x_test, y_test) = keras.datasets.mnist.load_data()
    x_train = np.expand_dims(x_train, -1).astype("float32") / 255.0
    x_test = np.expand_dims(x_test, -1).astype("float32") / 255.0
    return x_train[:-6000], x_train[-6000:], x_test, y_test


def main():
    keras.utils.set_random_seed(1337)
    x_train, x_val, x_test, y_test = load_digits()
    train_ds = tf.data.Dataset.from_tensor_slices(x_train).shuffle(len(x_train)).batch(128).prefetch(tf.data.AUTOTUNE)
    val_ds = tf.data.Dataset.from_tensor_slices(x_val).batch(128)

    vae = DigitVAE(make_encoder(), make_decoder())
    vae.compile(optimizer=keras.optimizers.Adam(1e-3))
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", mode="min", patience=3, restore_best_weights=True)
    vae.fit(train_ds, validation_data=val_ds, epochs=30, callbacks=[stop])

    scores = vae.evaluate(tf.data.Dataset.from_tensor_slices(x_test).batch(128), return_dict=True)
    print("test", scores)
    codes = vae.encoder.predict(x_test, batch_size=256)[0]
    np.savez("codes.npz", codes=codes, labels=y_test)
    rng = np.random.default_rng(0)
    drawn = vae.decoder.predict(rng.normal(size=(16, LATENT)).astype("float32"))
    np.save("drawn.npy", drawn)
    vae.encoder.save("encoder.keras")
    vae.decoder.save("decoder.keras")


if __name__ == "__main__":
    main()
