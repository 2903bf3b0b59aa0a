"""A data set of TensorFlow is cached after it was shuffled, so each epoch has the same order.

`cache()` keeps the elements of the first epoch in the order that `shuffle()` gave them. Later epochs read the cache,
and nothing is shuffled again. `shuffle()` belongs after `cache()`.

## Bad

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    rows = rows.shuffle(1000).cache().batch(32)  # <- cached-shuffle
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Good

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    rows = rows.cache().shuffle(1000).batch(32)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## When it is fine

One order for all epochs is asked for, or the rows are shuffled again:

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    fixed = rows.shuffle(1000, reshuffle_each_iteration=False).cache().batch(32)
    rows = rows.shuffle(1000).cache()
    rows = rows.shuffle(1000).batch(32)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Fix

None: what is between the two calls may have to move as well.

## References

TensorFlow documentation, `tf.data.Dataset.cache`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tf_datasets
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class CachedShuffle(Rule):
    level = Level.WARNING
    keywords = "tensorflow|tf. & .shuffle( & .cache("
    needs_training = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                cached,
                "the cache keeps the order of the first epoch for all others",
                related=[Related(shuffled, "shuffled before, and not again", "shuffle")],
                help="call `shuffle` after `cache`",
            )
            for cached, shuffled in tf_datasets.cached_shuffles(pipeline.source)
        )
