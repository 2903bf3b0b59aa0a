"""A data set of TensorFlow is shuffled after it was divided into batches, so the same rows always come together.

`shuffle()` after `batch()` changes the order of the batches and not what is in them. If the file is sorted by class,
each batch has one class, in every epoch. It also keeps whole batches in its buffer. `shuffle()` belongs before
`batch()`.

## Bad

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    rows = rows.batch(32).shuffle(1000)  # <- shuffled-batches
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Good

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    rows = rows.shuffle(1000).batch(32)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## When it is fine

The rows were shuffled before, or are taken out of the batches:

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    twice = rows.shuffle(1000).batch(32).shuffle(10)
    rows = rows.batch(32).map(lambda x, y: (x / 2, y)).unbatch().shuffle(1000).batch(32)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)

## Fix

None: what is between the two calls may have to move as well.

## References

TensorFlow documentation, `tf.data.Dataset.shuffle` and `tf.data.Dataset.batch`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tf_datasets
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class ShuffledBatches(Rule):
    level = Level.WARNING
    keywords = "tensorflow|tf. & .shuffle( & batch("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(tf_datasets.shuffled_batches(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                shuffled,
                "whole batches are shuffled, and each keeps its rows in every epoch",
                related=[Related(batched, "divided into batches before", "batch")],
                help="call `shuffle` before `batch`",
            )
            for shuffled, batched in tf_datasets.shuffled_batches(pipeline.source)
        )
