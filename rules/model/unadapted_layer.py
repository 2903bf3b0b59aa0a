"""A layer of Keras that learns from the data by `adapt` is used without it.

`Normalization` then returns its inputs as they are, with their means and scales, and `TextVectorization` and the
lookups know no word, so that every text looks alike. The loss falls slowly or not at all, and no error is raised.

## Bad

    normalization = keras.layers.Normalization(axis=-1)  # <- unadapted-layer
    network = keras.Sequential([normalization, keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse")
    network.fit(x_train, y_train, verbose=0)

## Good

    normalization = keras.layers.Normalization(axis=-1)
    normalization.adapt(x_train)
    network = keras.Sequential([normalization, keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse")
    network.fit(x_train, y_train, verbose=0)

## When it is fine

The numbers are given:

    normalization = keras.layers.Normalization(mean=0.5, variance=0.25)
    network = keras.Sequential([normalization, keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse")
    network.fit(x_train, y_train, verbose=0)

## Fix

None: which rows the layer should learn from is not certain.

## References

Keras documentation, "Working with preprocessing layers": the state of these layers is not learned in training.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_misuse
from lintrain.rule import Finding, Level, Pipeline, Rule


class UnadaptedLayer(Rule):
    level = Level.ERROR
    keywords = "Normalization|TextVectorization|Lookup|Discretization & keras & fit"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        made = {call.location for call in pipeline.calls if call.path.startswith("keras.layers.")}
        for found in keras_misuse.unadapted_layers(pipeline.source):
            if found.location in made:
                learns = "the scale of its inputs" if found.name == "Normalization" else "no value of the data"
                yield self.finding(
                    found.location,
                    f"nothing adapts this `{found.name}`",
                    why=f"it knows {learns} only after `adapt`",
                    help="call `adapt` with the training rows before `fit`",
                )
