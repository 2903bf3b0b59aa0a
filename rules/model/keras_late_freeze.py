"""Layers of a Keras model are frozen or freed between two calls of `fit`, without `compile` after it.

`fit` keeps the step that was built after the last `compile`, with the weights that were trainable then. TensorFlow goes
on training the same weights; with PyTorch as the backend, weights that are freed raise an error, since the optimizer
does not know them.

## Bad

    base = keras.Sequential([keras.layers.Dense(8, activation="relu")])
    network = keras.Sequential([base, keras.layers.Dense(3)])
    base.trainable = False
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    base.trainable = True  # <- keras-late-freeze
    network.fit(x_train, y_train, verbose=0)
    # raises Unknown variable

## Good

    base = keras.Sequential([keras.layers.Dense(8, activation="relu")])
    network = keras.Sequential([base, keras.layers.Dense(3)])
    base.trainable = False
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    base.trainable = True
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## When it is fine

Before the first `fit` no step is built yet:

    base = keras.Sequential([keras.layers.Dense(8, activation="relu")])
    network = keras.Sequential([base, keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    base.trainable = False
    network.fit(x_train, y_train, verbose=0)

## Fix

None: the second `compile` often has another learning rate.

## References

Keras guide, "Transfer learning & fine-tuning", "Important notes about `compile()` and `trainable`".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_freezing
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets


class KerasLateFreeze(Rule):
    level = Level.ERROR
    keywords = "trainable & fit & compile"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(keras_freezing.late_changes(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in keras_freezing.late_changes(pipeline.source):
            yield self.finding(
                found.location,
                f"`fit` does not notice `{found.code}`: the model is not compiled again",
                related=[
                    Related(found.first, "fitted here before the change", "fit"),
                    Related(found.second, "fitted here again", "second"),
                ],
                help="call `compile` after the change",
            )
