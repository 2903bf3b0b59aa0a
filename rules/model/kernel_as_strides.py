"""A convolution of Keras gets the second side of its kernel as its strides.

`Conv2D(64, 3, 3)` was a kernel of 3 by 3 in Keras 1, and Keras until 2.3 understood it so. Since Keras 2.4, and in all
of TensorFlow, it is a kernel of 3 with strides of 3: the layer looks at each pixel once and gives a ninth of the
outputs. No error is raised, and the network sees far less of its images.

## Bad

    network = keras.Sequential([keras.Input((24, 24, 3))])
    network.add(keras.layers.Conv2D(8, 3, 3, activation="relu"))  # <- kernel-as-strides
    network.add(keras.layers.Flatten())
    network.add(keras.layers.Dense(3, activation="softmax"))
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(np.random.rand(16, 24, 24, 3), np.random.randint(0, 3, 16), verbose=0)

## Good

    network = keras.Sequential([keras.Input((24, 24, 3))])
    network.add(keras.layers.Conv2D(8, (3, 3), activation="relu"))
    network.add(keras.layers.Flatten())
    network.add(keras.layers.Dense(3, activation="softmax"))
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(np.random.rand(16, 24, 24, 3), np.random.randint(0, 3, 16), verbose=0)

## When it is fine

Strides of another size are meant as such, and so are patches of an even size and strides that are named:

    network = keras.Sequential([keras.Input((24, 24, 3))])
    network.add(keras.layers.Conv2D(8, 3, 2, activation="relu"))
    network.add(keras.layers.Conv2D(8, 2, 2, activation="relu"))
    network.add(keras.layers.Conv2D(8, 3, strides=3, activation="relu"))
    network.add(keras.layers.Flatten())
    network.add(keras.layers.Dense(3, activation="softmax"))
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(np.random.rand(16, 24, 24, 3), np.random.randint(0, 3, 16), verbose=0)

## Fix

None: a network that was trained with these strides expects them.

## References

Keras documentation, `keras.layers.Conv2D`; release notes of Keras 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients
from lintrain.rule import (
    Finding,
    Level,
    Pipeline,
    Rule,
    Source,
    Targets,
    lazy_pattern,
    one_per_location,
)

WITHOUT_KERAS_1 = (2, 4)
"""The first version that has no arguments of Keras 1; the layers of TensorFlow never had them."""

CONVOLUTION = lazy_pattern(r"Conv\w*2D(?:Transpose)?\s*\(")


class KernelAsStrides(Rule):
    level = Level.WARNING
    keywords = "Conv & keras"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(CONVOLUTION)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if pipeline.targets.get("keras") is None or gradients.is_since(pipeline.targets, "keras", WITHOUT_KERAS_1):
            yield from one_per_location(self._reported(pipeline))

    def _reported(self, pipeline: Pipeline) -> Iterator[Finding]:
        for misuse in (each for each in pipeline.misuses if each.use == "kernel as strides"):
            layer, _, side = misuse.text.rpartition(" ")
            yield self.finding(
                misuse.location,
                f"`{layer}` takes this {side} for its strides, not for a side of its kernel",
                help=f"write the kernel as `({side}, {side})`",
            )
