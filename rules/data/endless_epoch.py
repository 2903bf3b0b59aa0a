"""Keras is given rows without an end, and no number of batches after which an epoch ends.

`repeat()` without a count, or a generator with `while True`, gives batches for ever. Without `steps_per_epoch` the
first epoch never ends: nothing is validated, no callback runs, nothing is saved. Older versions raise an error. With
the number of rows as the number of batches, an epoch goes through the rows many times.

## Bad

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(100).batch(32).repeat()
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3)  # <- endless-epoch

## Good

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(100).batch(32).repeat()
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows, epochs=3, steps_per_epoch=10)

## When it is fine

A count of repetitions, or a part of the rows, has an end:

    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(32)
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(rows.repeat(2), epochs=3)
    model.fit(rows.repeat().take(10), epochs=3)

## Fix

None: how many batches an epoch shall have is the script's choice.

## References

Keras documentation, `Model.fit`, `steps_per_epoch` and `validation_steps`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tf_datasets
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class EndlessEpoch(Rule):
    level = Level.ERROR
    keywords = "repeat|while|steps & fit & keras|tensorflow|tf.|.compile("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                found.location,
                f"these batches never end, and `{found.missing}` is not set",
                related=[Related(found.made, "gives batches for ever", "origin")],
                help=f"pass `{found.missing}` to `fit`",
                subject=found.argument,
            )
            for found in tf_datasets.endless_epochs(pipeline.source)
        )
        yield from one_per_location(
            self.finding(
                location,
                "this is the number of rows, but an epoch is counted in batches",
                help=f"leave it out, or pass `len({owner})`, the number of batches",
                subject="x",
            )
            for location, owner in tf_datasets.counted_rows(pipeline.source)
        )
