"""A network is trained on images in the order red, green, blue, and predicts images that OpenCV reads.

`cv2.imread` gives blue, green, red. A normalization with the means of ImageNet expects red, green, blue, and so does a
network that was pretrained with it. What Keras and torchvision read from a folder is red, green, blue, so the network
sees each image in other colours than in the training. No error is raised, and the prediction is worse.

## Bad

    import cv2

    images = keras.utils.image_dataset_from_directory("photos", image_size=(64, 64))
    network = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images)
    image = cv2.imread("photo.png")  # <- swapped-channels
    image = cv2.resize(image, (64, 64))
    print(network.predict(image[None]))

## Good

    import cv2

    images = keras.utils.image_dataset_from_directory("photos", image_size=(64, 64))
    network = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images)
    image = cv2.cvtColor(cv2.imread("photo.png"), cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (64, 64))
    print(network.predict(image[None]))

## When it is fine

An image in shades of grey has no order of channels:

    import cv2

    images = keras.utils.image_dataset_from_directory("photos", image_size=(64, 64), color_mode="grayscale")
    network = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)])
    network.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(images)
    image = cv2.imread("photo.png", cv2.IMREAD_GRAYSCALE)
    image = cv2.resize(image, (64, 64))
    print(network.predict(image[None, ..., None]))

## Fix

None: the channels may be turned where the image is read, or later.

## References

OpenCV documentation, `imread`: the channels are stored in the order B, G, R.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import channel_order
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class SwappedChannels(Rule):
    level = Level.WARNING
    keywords = "imread & predict|Normalize"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, channel_order.swapped(pipeline.source)))
        yield from one_per_location(map(self._report_means, channel_order.swapped_means(pipeline.source)))

    def _report_means(self, found: channel_order.Swapped) -> Finding:
        return self.finding(
            found.location,
            "`cv2.imread` gives BGR, but `Normalize` has the means of RGB",
            related=[
                Related(found.training, "subtracts the means of red, green, blue", "training"),
                Related(found.used, "transformed here", "use"),
            ],
            help="add `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)`",
        )

    def _report(self, found: channel_order.Swapped) -> Finding:
        return self.finding(
            found.location,
            "`cv2.imread` gives BGR, but the network was trained on RGB",
            related=[
                Related(found.training, f"`{found.reader}` reads RGB", "training"),
                Related(found.used, "predicted here", "use"),
            ],
            help="add `cv2.cvtColor(image, cv2.COLOR_BGR2RGB)`",
        )
