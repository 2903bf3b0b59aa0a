"""A loss for Keras is computed by NumPy, which has no gradients.

Keras calls the loss with tensors and asks the backend for the gradient of its result. What NumPy computes from the
predictions, or holds in an array, has none: Keras raises an error about a symbolic tensor, or about missing gradients.

## Bad

    import numpy as np

    def spread(y_true, y_pred):
        return np.square(y_true - y_pred)  # <- numpy-in-keras-loss

    network = keras.Sequential([keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss=spread)
    network.fit(x_train, x_train[:, :1], verbose=0)
    # raises numpy() on Tensor that requires grad

## Good

    def spread(y_true, y_pred):
        return keras.ops.mean(keras.ops.square(y_true - y_pred))

    network = keras.Sequential([keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss=spread)
    network.fit(x_train, x_train[:, :1], verbose=0)

## When it is fine

Constants, and shapes:

    import numpy as np

    weight = np.array([2.0], dtype="float32")

    def spread(y_true, y_pred):
        share = float(np.sqrt(0.25))
        return share * keras.ops.mean(keras.ops.multiply(keras.ops.square(y_true - y_pred), weight))

    network = keras.Sequential([keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss=spread)
    network.fit(x_train, x_train[:, :1], verbose=0)

## Fix

None: operations of the backend have to take the place of those of NumPy.

## References

Keras documentation, "Losses", "Creating custom losses", `keras.ops`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_misuse
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class NumpyInKerasLoss(Rule):
    level = Level.ERROR
    keywords = "compile & np|numpy"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for location, name, given in keras_misuse.numpy_in_losses(pipeline.source):
            shown = name if len(name) <= 25 else "the loss"
            yield self.finding(
                location,
                f"`{shown}` is a loss, and what NumPy computes has no gradient",
                related=[Related(given, "given to Keras as the loss here", "loss")],
                help="use operations of `keras.ops`, or of the backend",
            )
