"""A generator goes through its rows once, and has to feed several epochs of Keras.

`fit` does not call the generator again. When it has given its last batch, after the first epoch, there is nothing to
train on: Keras warns that the "input ran out of data" and stops, or goes on with empty epochs.

## Bad

    def batches(rows, targets, size):
        for start in range(0, len(rows), size):
            yield rows[start : start + size], targets[start : start + size]

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(batches(x_train, y_train, 32), epochs=3, verbose=0)  # <- finite-generator

## Good

    def batches(rows, targets, size):
        while True:
            for start in range(0, len(rows), size):
                yield rows[start : start + size], targets[start : start + size]

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(batches(x_train, y_train, 32), epochs=3, steps_per_epoch=3, verbose=0)

## When it is fine

The generator counts the epochs itself, or each epoch gets a part of its batches:

    def batches(rows, targets, size, epochs):
        for epoch in range(epochs):
            for start in range(0, len(rows), size):
                yield rows[start : start + size], targets[start : start + size]

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(batches(x_train, y_train, 32, 3), epochs=3, steps_per_epoch=3, verbose=0)

## Fix

None: with `while True` around the loop, `fit` needs the number of batches of an epoch.

## References

Keras documentation, `Model.fit`, `steps_per_epoch`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tf_datasets
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class FiniteGenerator(Rule):
    level = Level.ERROR
    keywords = "yield & fit & epoch"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                location,
                "this generator has no batches left after the first epoch",
                related=[Related(loop, "goes through the rows once", "origin")],
                help="put `while True` around its loop, and pass `steps_per_epoch` to `fit`",
            )
            for location, loop in tf_datasets.ended_generators(pipeline.source)
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.arguments.get("is_drawn_out"):
            yield self.finding(
                evidence.call or evidence.location,
                "this generator has no batches left before the last epoch",
                help="put `while True` around its loop, and pass `steps_per_epoch`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        drawn, epochs = evidence.arguments.get("drawn_batches"), evidence.arguments.get("epochs")
        if drawn is None or not isinstance(epochs, int):
            return Verdict.inconclusive("the batches of a generator were not counted")
        steps = evidence.arguments.get("steps_per_epoch")
        # Without a number of batches an epoch takes all there are.
        wanted = int(steps or drawn) * epochs
        text = f"it gives {drawn} batches, and {epochs} epochs take {wanted}"
        if evidence.arguments.get("is_drawn_out"):
            return (Verdict.confirmed if int(drawn) < wanted else Verdict.refuted)(text, drawn=drawn, wanted=wanted)
        text = f"it gave {drawn} batches and was not over, and {epochs} epochs take {wanted}"
        return (Verdict.refuted if steps and int(drawn) >= wanted else Verdict.inconclusive)(text, drawn=drawn)
