"""Images are rotated by an angle in the wrong unit: a fraction as degrees, or degrees as full turns.

`rotation_range` of Keras generators and the transforms of torchvision and albumentations count degrees: 0.2 is a fifth
of one, which changes no pixel that matters, so there is no augmentation by rotation. `RandomRotation` of Keras counts
full turns: Keras 3 refuses 20, and in Keras 2 it is any angle at all, upside down as well.

## Bad

    import numpy as np

    images, labels = np.random.rand(len(y_train), 8, 8, 3), y_train
    turn = keras.layers.RandomRotation(20)  # <- rotation-unit-mismatch
    network = keras.Sequential([turn, keras.layers.Flatten(), keras.layers.Dense(10)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images, labels, verbose=0)

    # raises ValueError: The `factor` argument

## Good

    import numpy as np

    images, labels = np.random.rand(len(y_train), 8, 8, 3), y_train
    turn = keras.layers.RandomRotation(20 / 360)
    network = keras.Sequential([turn, keras.layers.Flatten(), keras.layers.Dense(10)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images, labels, verbose=0)

## When it is fine

Images without an upper side may be rotated by a full turn, and no rotation is a setting, too:

    import numpy as np

    images, labels = np.random.rand(len(y_train), 8, 8, 3), y_train
    turn = keras.layers.RandomRotation(1.0)
    still = keras.layers.RandomRotation(0)
    network = keras.Sequential([turn, still, keras.layers.Flatten(), keras.layers.Dense(10)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images, labels, verbose=0)

## Fix

None: which angle was meant is not in the number.

## References

Keras documentation, `ImageDataGenerator` and `RandomRotation`; torchvision documentation, `RandomRotation`;
albumentations documentation, `Rotate`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import rotations
from lintrain.rule import Finding, Level, Pipeline, Rule, one_per_location


class RotationUnitMismatch(Rule):
    level = Level.WARNING
    keywords = "rotation_range|RandomRotation|RandomAffine|Rotate"
    needs_training = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(found for each in rotations.rotations(pipeline) for found in self._report(each))

    def _report(self, found: rotations.Rotation) -> Iterator[Finding]:
        if found.counts_turns and found.angle > 1:
            problem = f"`{found.name}` counts full turns, and {found.angle:g} of them give any angle"
            yield self.finding(found.location, problem, help="divide the degrees by 360")
        elif not found.counts_turns and 0 < found.angle < 1:
            problem = f"`{found.name}` counts degrees, and {found.angle:g} of one changes nothing"
            yield self.finding(found.location, problem, help="write the angle in degrees: `20`")
