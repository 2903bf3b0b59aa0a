"""Images reach a network of Keras with other numbers than it expects: scaled twice, or as for another backbone.

Divided by 255 a second time, all pixels are nearly 0. The networks of `keras.applications` were trained on different
numbers: from -1 to 1, from 0 to 255, or BGR around the mean of ImageNet, and none on pixels that were divided by 255.
With such pixels, or the `preprocess_input` of another one, the pretrained layers see images like none before. No error
is raised, and the accuracy is low.

## Bad

    (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
    x_train = x_train / 255
    network = keras.Sequential(
        [
            keras.layers.Rescaling(1 / 255),  # <- pixel-range-mismatch
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train)

The preparation of another network:

    from keras.applications import MobileNetV2
    from keras.applications.vgg16 import preprocess_input  # <- pixel-range-mismatch

    base = MobileNetV2(include_top=False, pooling="avg")
    network = keras.Sequential([base, keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(preprocess_input(images), labels)

## Good

    (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
    network = keras.Sequential(
        [
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train)

and

    from keras.applications import MobileNetV2
    from keras.applications.mobilenet_v2 import preprocess_input

    base = MobileNetV2(include_top=False, pooling="avg")
    network = keras.Sequential([base, keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(preprocess_input(images), labels)

## When it is fine

A network that is trained from the start has no numbers that it was trained on before:

    from keras.applications import MobileNetV2
    from keras.applications.vgg16 import preprocess_input

    base = MobileNetV2(include_top=False, pooling="avg", weights=None)
    network = keras.Sequential([base, keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(preprocess_input(images), labels)

## Fix

None: one of the two scalings has to go, or the import be that of the network.

## References

Keras documentation, "Keras Applications" and `Rescaling`; `keras/src/applications/imagenet_utils.py` of Keras 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import pixel_ranges
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class PixelRangeMismatch(Rule):
    level = Level.WARNING
    keywords = "Rescaling|preprocess_input|ImageDataGenerator|applications"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, pixel_ranges.range_mismatches(pipeline)))

    def _report(self, found: pixel_ranges.RangeMismatch) -> Finding:
        related = [Related(found.other, found.about, "other")]
        return self.finding(found.location, found.problem, related=related, help=found.remedy)
