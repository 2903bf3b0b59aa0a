"""A callback is made, and no training gets it.

`EarlyStopping` and `ModelCheckpoint` only work if `fit` or the trainer gets them. One that stays in its variable raises
no error: the run never stops early, keeps no best weights, or never lowers its learning rate.

## Bad

    stop = keras.callbacks.EarlyStopping(patience=2)  # <- unused-callback
    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, validation_split=0.2, epochs=2)

## Good

    stop = keras.callbacks.EarlyStopping(patience=2)
    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, validation_split=0.2, epochs=2, callbacks=[stop])

## When it is fine

A comment shows that the callback was switched off:

    stop = keras.callbacks.EarlyStopping(patience=2)
    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, validation_split=0.2, epochs=2)  # callbacks=[stop]

Another one of its kind is passed:

    stop = keras.callbacks.EarlyStopping(patience=1)
    stop_late = keras.callbacks.EarlyStopping(patience=20)
    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, validation_split=0.2, epochs=2, callbacks=[stop_late])

## Fix

None: a callback that was left out on purpose is to be removed instead.

## References

Keras documentation, "Callbacks API"; Lightning documentation, "Callback".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text
from lintrain.rule import Finding, Level, Pipeline, Rule, Source

NAMES = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "LearningRateScheduler")
MISSED = {
    **{f"keras.callbacks.{name}": name for name in NAMES},
    **{f"lightning.{name}": name for name in NAMES[:2]},
    "transformers.EarlyStoppingCallback": "EarlyStoppingCallback",
}
"""Callbacks that change what a run does or keeps, by their paths."""

TRAINS = r"\.(fit|fit_generator|train)\("


class UnusedCallback(Rule):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "EarlyStopping|ModelCheckpoint|ReduceLROnPlateau|LearningRateScheduler & fit|train("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        if not source.contains(TRAINS) or source.contains(r"\b(globals|locals|exec|eval)\("):
            return
        made = {call.location: call.path for call in pipeline.calls if call.path in MISSED}
        unread = {
            call.location: name
            for call, name in (script_text.named_results(source) if made else ())
            if call.location in made and _is_never_read(source, name)
        }
        passed = {path for location, path in made.items() if location not in unread}
        for location, name in unread.items():
            if made[location] not in passed:
                yield self.finding(
                    location,
                    f"`{name}` is never passed to a training, so this `{MISSED[made[location]]}` has no effect",
                    help=f"pass it: `callbacks=[{name}]`, or remove it",
                    subject="callbacks",
                )


def _is_never_read(source: Source, name: str) -> bool:
    """Whether no code of a file, and no comment, reads a name; also not as an attribute of a class."""
    is_read = any(use.is_read for use in script_text.uses_of(source, name))
    is_shared = name in script_text.attribute_names(source) or name in script_text.imported_names(source)
    return not is_read and not is_shared and not source.contains(rf"#.*\b{name}\b|[\"']{name}[\"']")
