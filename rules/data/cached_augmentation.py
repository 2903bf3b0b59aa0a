"""A data set of TensorFlow is cached after its images were changed at random, so each epoch has the same images.

`cache()` keeps the elements of the first epoch. What is flipped or rotated before it is flipped and rotated once, and
all later epochs read the same pictures: the augmentation has no effect but to change the training images. `cache()`
belongs before the augmentation.

## Bad

    import tensorflow as tf

    def augment(image, label):
        return tf.image.random_flip_left_right(image), label

    rows = tf.data.Dataset.from_tensor_slices((images, y_train))
    rows = rows.map(augment).cache().shuffle(1000).batch(32)  # <- cached-augmentation
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Good

    import tensorflow as tf

    def augment(image, label):
        return tf.image.random_flip_left_right(image), label

    rows = tf.data.Dataset.from_tensor_slices((images, y_train))
    rows = rows.cache().map(augment).shuffle(1000).batch(32)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## When it is fine

Several augmented copies of each row are kept on purpose, or the cached rows are changed again:

    import tensorflow as tf

    def augment(image, label):
        return tf.image.random_flip_left_right(image), label

    rows = tf.data.Dataset.from_tensor_slices((images, y_train))
    copies = rows.repeat(5).map(augment).cache().batch(32)
    rows = rows.map(augment).cache()
    rows = rows.map(augment).batch(32)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Fix

None: what is between the two calls may have to move as well.

## References

TensorFlow documentation, "Better performance with the tf.data API": caching.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import random_maps
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class CachedAugmentation(Rule):
    level = Level.WARNING
    keywords = "tensorflow|tf. & .map( & .cache("
    needs_training = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                cached,
                "the cache keeps the augmented images of the first epoch for all others",
                related=[Related(changed, "changed at random before, and not again", "augmentation")],
                help="call `cache` before the augmentation",
            )
            for cached, changed in random_maps.cached_augmentations(pipeline.source)
        )
