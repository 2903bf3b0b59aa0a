"""Keras 3 gets the name of a file to save a network in, without the ending that says its format.

Keras 2 wrote a folder for any name. Keras 3 writes `.keras` and `.h5`, weights alone to `.weights.h5`, and raises a
ValueError for everything else. `save` comes after the training, so the run fails when its result is to be kept.

## Bad

    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    network.save("classifier")  # <- keras-file-suffix
    # raises ValueError: Invalid filepath extension for saving

## Good

    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    network.save("classifier.keras")

## When it is fine

Weights alone, and the older format:

    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    network.save_weights("classifier.weights.h5")
    network.save("classifier.h5")

## Fix

None: other code may read the file by its name.

## References

Keras 3.15, `Model.save`, `Model.save_weights` and `ModelCheckpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients, keras_file_names
from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location

KERAS_3 = (3, 0)


class KerasFileSuffix(Rule):
    level = Level.ERROR
    keywords = "keras & save|save_weights|ModelCheckpoint"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if gradients.is_since(pipeline.targets, "keras", KERAS_3):
            yield from one_per_location(map(self._report, keras_file_names.refused(pipeline.source)))

    def _report(self, found: keras_file_names.RefusedName) -> Finding:
        shown = f"`{found.end}`" if len(found.end) <= 30 else "this path"
        return self.finding(
            found.location,
            f"`{found.method}` of Keras 3 refuses {shown}, which does not end in `{found.needed}`",
            help=f"let the name end in `{found.needed}`",
        )
