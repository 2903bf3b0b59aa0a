"""A callback watches a value that the run never computes.

Early stopping and the choice of the best weights look at one number after each epoch. If nothing computes it, Keras
warns and never stops or saves; the Trainer ends with an error at the start, Lightning after the first epoch.

## Bad

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback(early_stopping_patience=2)],  # <- unavailable-monitor
    )
    trainer.train()

Keras without validation data:

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)  # <- unavailable-monitor
    network.fit(x_train, y_train, epochs=2, callbacks=[stop])

A Lightning module that logs the loss by another name:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def training_step(self, batch):
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    module = Classifier()
    stop = L.pytorch.callbacks.EarlyStopping(monitor="train_loss")  # <- unavailable-monitor
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", callbacks=[stop], logger=False)
    trainer.fit(module, loader)
    # raises RuntimeError: Early stopping conditioned on metric `train_loss` which is not available

## Good

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="loss"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()

Keras with validation data:

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2)
    network.fit(x_train, y_train, epochs=2, callbacks=[stop], validation_data=(x_val, y_val))

The name by which the Lightning module logs it:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

        def training_step(self, batch):
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    module = Classifier()
    stop = L.pytorch.callbacks.EarlyStopping(monitor="train_loss")
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", callbacks=[stop], logger=False)
    trainer.fit(module, loader)

## When it is fine

The training loss is always there, a share of the rows is validation data too, and keywords may hold anything:

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=1, callbacks=[keras.callbacks.EarlyStopping(monitor="loss")])
    best = keras.callbacks.EarlyStopping(monitor="val_loss")
    network.fit(x_train, y_train, epochs=1, callbacks=[best], validation_split=0.2)
    options = {"validation_data": (x_val, y_val)}
    network.fit(x_train, y_train, epochs=1, callbacks=[best], **options)

Loading the best model at the end takes the loss for the metric:

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback(early_stopping_patience=2)],
    )
    trainer.train()

## Fix

Asks first: what is watched decides when the training ends. Offered for the training arguments; elsewhere
watching another name and logging another number are both reasonable.

## References

transformers#35101; `EarlyStoppingCallback.on_train_begin` of transformers 4.46 to 5.23 (measured: `AssertionError:
EarlyStoppingCallback requires metric_for_best_model to be defined`); Keras 3.15, `keras.callbacks.EarlyStopping`;
Lightning 2.6, `EarlyStopping` and `ModelCheckpoint` (measured).
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, lightning_logs
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import (
    Absent,
    Instance,
    LibraryObject,
    Sequence,
    Value,
    is_missing,
    is_true,
    literal,
)
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

STOPPING = "transformers.EarlyStoppingCallback"
WATCHING = {
    "keras.callbacks.EarlyStopping": "it never stops",
    "keras.callbacks.ModelCheckpoint": "it never saves",
    "keras.callbacks.ReduceLROnPlateau": "it never lowers the rate",
}
"""Callbacks of Keras that watch `val_loss` unless they are told otherwise, and what comes of nothing to watch."""

OF_LIGHTNING = frozenset({"lightning.EarlyStopping", "lightning.ModelCheckpoint"})
ALWAYS_THERE = frozenset({"epoch", "step"})

VALIDATION = ("validation_data", "validation_split")
SETS_METRIC = ("load_best_model_at_end", "lr_scheduler_type")


class UnavailableMonitor(Rule):
    level = Level.ERROR
    keywords = "Trainer|fit"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            settings = run.settings
            callback = _stopping(run.value("callbacks"))
            if callback is not None and settings is not None and settings.is_complete and run.train_calls:
                yield from self._of_trainer(run, settings, callback)
        for keras_run in pipeline.keras_runs:
            for location, arguments in keras_run.fits:
                yield from self._of_keras(location, arguments)
        yield from self._of_lightning(pipeline)

    def _of_lightning(self, pipeline: Pipeline) -> Iterator[Finding]:
        trainers = [call for call in pipeline.calls if call.path == "lightning.Trainer"]
        if not trainers or any(call.is_open or "fast_dev_run" in call.arguments for call in trainers):
            return
        given = [call.arguments["callbacks"].value for call in trainers if "callbacks" in call.arguments]
        callbacks = [each for value in given for each in _items(value)]
        logged = lightning_logs.logged_values(pipeline) if all(map(_is_followed, callbacks)) else None
        for callback in callbacks if logged else ():
            watched = _watched_by_lightning(callback)
            if watched and callback.origin and logged and not any(each.gives(watched) for each in logged):
                yield self._never_logged(callback.origin, watched, logged)

    def _never_logged(self, location: Location, watched: str, logged: list[lightning_logs.Logged]) -> Finding:
        from difflib import SequenceMatcher

        near = max(logged, key=lambda each: SequenceMatcher(None, each.name, watched).ratio())
        return self.finding(
            location,
            f"`{watched}` is never logged, so the first epoch ends in an error",
            related=[Related(near.location, f"logs `{near.name}`", "logged")],
            help=f"watch a name that the module logs, or log `{watched}`",
            subject="callbacks",
            facts={"watched": watched},
        )

    def _of_trainer(self, run: TrainerRun, settings: TrainingArguments, callback: Location) -> Iterator[Finding]:
        strategy = evaluation_schedule.evaluation_strategy(settings)
        has_metric = not evaluation_schedule.is_left_out(settings, "metric_for_best_model") or any(
            not evaluation_schedule.is_left_out(settings, name) for name in SETS_METRIC
        )
        is_never = strategy is not None and strategy.value == "no"
        if has_metric and not is_never:
            return
        missing = "eval_strategy" if has_metric else "metric_for_best_model"
        value = '`eval_strategy="epoch"`' if has_metric else '`metric_for_best_model="loss"`'
        made = [Related(settings.origin, f"sets no `{missing}`", "arguments")] if settings.origin else []
        yield self.finding(
            callback,
            f"early stopping has nothing to watch: `{missing}` is not set",
            related=[*made, Related(run.construction, "this trainer asks it", "trainer")],
            help=f"add {value} to the training arguments",
            subject="callbacks",
            facts=_setting(run, has_metric=has_metric),
        )

    def _of_keras(self, location: Location, arguments: dict[str, Argument]) -> Iterator[Finding]:
        given = arguments.get("callbacks")
        if given is None or "**" in arguments or any(name in arguments for name in VALIDATION) or len(arguments) > MOST:
            return
        for callback in _items(given.value):
            if not isinstance(callback, LibraryObject) or callback.path not in WATCHING or callback.origin is None:
                continue
            watched = _watched(callback)
            if watched is not None and watched.startswith("val_"):
                yield self.finding(
                    callback.origin,
                    f"`{watched}` is never computed, so {WATCHING[callback.path]}",
                    related=[Related(location, "no validation data here", "fit")],
                    help="pass `validation_data` or `validation_split` to `fit`, or watch `loss`",
                    subject="callbacks",
                    level=Level.WARNING,
                    facts={"watched": watched},
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.framework == "lightning":
            return _seen_by_lightning(str(finding.facts.get("watched", "")), evidence)
        if evidence.framework == "keras":
            return _seen_by_keras(str(finding.facts.get("watched", "")), evidence)
        strategy, metric = evidence.arguments.get("eval_strategy"), evidence.arguments.get("metric_for_best_model")
        if not isinstance(strategy, str):
            return Verdict.inconclusive("the training arguments were not seen: 0 of them are known")
        if metric is None or strategy == "no":
            return Verdict.confirmed(
                f"early stopping watches `{metric}`, evaluated by `{strategy}`: 0 values to compare"
            )
        return Verdict.refuted(f"early stopping watches `{metric}`, evaluated by `{strategy}`: 1 value each time")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        made, name, value = finding.with_role("arguments"), finding.facts.get("name"), finding.facts.get("value")
        if not made or not isinstance(name, str):
            return None
        return fixes.Fix.of(
            f'set `{name}="{value}"`', fixes.AddArgument(made[0].location, name, f'"{value}"'), safe=False
        )


def _seen_by_lightning(watched: str, evidence: Evidence) -> Verdict:
    """What a short run logged, and Lightning's own error about a name that it misses."""
    logged = [name for name in str(evidence.arguments.get("logged") or "").split(", ") if name]
    if watched in logged:
        return Verdict.refuted(f"`{watched}` is among the {len(logged)} names that were logged")
    stage = evidence.stage("evaluation")
    if stage is not None and stage.failure is not None and watched in stage.failure.message:
        return Verdict.confirmed(f"{stage.failure.type}: {stage.failure.message}", stage=stage.name)
    return Verdict.inconclusive(
        f"`{watched}` was not logged in the batches that ran: {evidence.not_reached('evaluation')}"
    )


def _seen_by_keras(watched: str, evidence: Evidence) -> Verdict:
    """What an epoch computes: a training step and, where there is validation data, an evaluation."""
    names = evidence.watched_names
    if names is None:
        return Verdict.inconclusive(evidence.not_reached("evaluation"))
    if watched in names.computed:
        return Verdict.refuted(f"`{watched}` is among the {len(names.computed)} names that an epoch ends with")
    if watched in names.missing:
        computed = ", ".join(f"`{name}`" for name in names.computed)
        return Verdict.confirmed(f"an epoch ends with {computed}: {len(names.computed)} names", stage="step")
    return Verdict.inconclusive(
        f"a callback of the script speaks of `{watched}`, or none of {len(names.watched)} watches it"
    )


UNGIVEN = Absent()
MOST = 12
"""Positional arguments beyond those that are known by name may be validation data."""


def _stopping(callbacks: Value) -> Location | None:
    """Where a Trainer's early stopping is made."""
    found = [each for each in _items(callbacks) if isinstance(each, LibraryObject) and each.path == STOPPING]
    return found[0].origin if found else None


def _items(value: Value) -> list[Value]:
    return value.items if isinstance(value, Sequence) else [value]


def _watched(callback: LibraryObject) -> str | None:
    """The name that a callback watches, by default `val_loss`; a checkpoint that is always saved watches nothing."""
    if callback.path.endswith("ModelCheckpoint") and not is_true(callback.arguments.get("save_best_only", UNGIVEN)):
        return None
    position = "1" if callback.path.endswith("ModelCheckpoint") else "0"
    given = callback.arguments.get("monitor", callback.arguments.get(position, UNGIVEN))
    if is_missing(given):
        return "val_loss"
    name = literal(given)
    return name if isinstance(name, str) else None


def _is_followed(callback: Value) -> bool:
    """Whether a callback of Lightning is one that the script shows, or one of the library's own."""
    return isinstance(callback, Instance) or (isinstance(callback, LibraryObject) and "lightning" in callback.path)


def _watched_by_lightning(callback: Value) -> str | None:
    """The name that a callback of Lightning watches and does without in no case."""
    if not isinstance(callback, LibraryObject) or callback.path not in OF_LIGHTNING or "**" in callback.arguments:
        return None
    given = callback.arguments.get("monitor", UNGIVEN)
    is_first = callback.path.endswith("EarlyStopping") and isinstance(given, Absent)
    name = literal(callback.arguments.get("0", UNGIVEN) if is_first else given)
    is_strict = "strict" not in callback.arguments
    return name if isinstance(name, str) and is_strict and name not in ALWAYS_THERE else None


def _setting(run: TrainerRun, *, has_metric: bool) -> dict[str, str]:
    """The setting that is missing, where nothing else is: an evaluation also needs its rows."""
    if not has_metric:
        return {"name": "metric_for_best_model", "value": "loss"}
    return {} if is_missing(run.value("eval_dataset")) else {"name": "eval_strategy", "value": "epoch"}
