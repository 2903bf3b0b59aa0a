"""A callback monitors a value that the run never computes.

Early stopping and the selection of the best weights monitor one value after each epoch. If nothing computes it, Keras
warns and never stops or saves; the Trainer raises an error at the start, Lightning after the first epoch.

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

A Lightning module that logs the loss under another name:

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

The name that the Lightning module logs:

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

The training loss is always available, a share of the rows is validation data too, and keywords may contain anything:

    network = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=1, callbacks=[keras.callbacks.EarlyStopping(monitor="loss")])
    best = keras.callbacks.EarlyStopping(monitor="val_loss")
    network.fit(x_train, y_train, epochs=1, callbacks=[best], validation_split=0.2)
    options = {"validation_data": (x_val, y_val)}
    network.fit(x_train, y_train, epochs=1, callbacks=[best], **options)

Loading the best model at the end uses the loss as the metric:

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

Asks first: the monitored value decides when training ends. Offered for the training arguments; elsewhere, monitoring
another name and logging another value are both reasonable.

## References

transformers#35101; `EarlyStoppingCallback.on_train_begin` of transformers 4.46 to 5.23 (measured: `AssertionError:
EarlyStoppingCallback requires metric_for_best_model to be defined`); Keras 3.15, `keras.callbacks.EarlyStopping`;
Lightning 2.6, `EarlyStopping` and `ModelCheckpoint` (measured).
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import (
    evaluation_schedule,
    gradients,
    lightning_modules,
    lightning_updates,
    monitors,
    tf_datasets,
)
from lintrain.pipeline.values import python
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.training import KerasRun, TrainerRun, TrainingArguments
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
)
from lintrain.source.project_search import is_beside_python_2

MONITORS = {
    "keras.callbacks.EarlyStopping": "training never stops early",
    "keras.callbacks.ModelCheckpoint": "no checkpoint is saved",
    "keras.callbacks.ReduceLROnPlateau": "the learning rate is never lowered",
}
"""Callbacks of Keras that monitor `val_loss` by default, and what happens if it is missing."""


VALIDATION = ("validation_data", "validation_split")
SETS_METRIC = ("load_best_model_at_end", "lr_scheduler_type")


@dataclass(frozen=True, slots=True)
class Claim:
    """The monitored name (Keras, Lightning), or the setting of the training arguments to add, with its value."""

    monitored: str = ""
    name: str = ""
    value: str = ""


class UnavailableMonitor(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|fit|ReduceLROnPlateau"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            settings = run.settings
            callback = monitors.stopping(run.value("callbacks"))
            if callback is not None and settings is not None and settings.is_complete and run.train_calls:
                yield from self._of_trainer(run, settings, callback)
        for keras_run in pipeline.keras_runs:
            for location, arguments in keras_run.fits:
                yield from self._of_keras(location, arguments)
                yield from self._of_names(pipeline, keras_run, arguments)
                yield from self._never_recorded(pipeline, location, arguments)
                is_newer = gradients.is_since(pipeline.targets, "keras", monitors.KEEPS_NAMES)
                if is_newer and not is_beside_python_2(pipeline.source):  # Keras 2.3 was the last for Python 2
                    target = pipeline.targets.get("keras")
                    since = f"since Keras 2.3 ({target.shown})" if target is not None else ""
                    yield from self._of_accuracy(pipeline, keras_run, arguments, since)
        yield from self._of_lightning(pipeline)

    def _of_lightning(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location, schedule in lightning_updates.unmonitored_plateaus(pipeline):
            yield self.finding(
                location,
                f"`{schedule}` is returned without `monitor`, which raises an error",
                help='name the value that it waits for: `{"scheduler": ..., "monitor": "val_loss"}`',
                subject="lr_scheduler",
                claim=Claim("monitor"),
            )
        trainers = [call for call in pipeline.calls if call.path == "lightning.Trainer"]
        if not trainers or any(call.is_open or "fast_dev_run" in call.arguments for call in trainers):
            return
        given = [call.arguments["callbacks"].value for call in trainers if "callbacks" in call.arguments]
        callbacks = [each for value in given for each in monitors.items(value)]
        logged = lightning_modules.logged_values(pipeline) if all(map(monitors.is_followed, callbacks)) else None
        for callback in callbacks if logged else ():
            monitored = monitors.monitored_by_lightning(callback)
            if monitored and callback.origin and logged and not any(each.gives(monitored) for each in logged):
                yield self._never_logged(callback.origin, monitored, logged)

    def _never_logged(
        self, location: Location, monitored: str, logged: list[lightning_modules.Logged]
    ) -> Finding[Claim]:
        from difflib import SequenceMatcher

        near = max(logged, key=lambda each: SequenceMatcher(None, each.name, monitored).ratio())
        return self.finding(
            location,
            f"`{monitored}` is never logged, so the first epoch ends with an error",
            related=[Related(near.location, f"logs `{near.name}`", "logged")],
            help=f"monitor a name that the module logs, or log `{monitored}`",
            subject="callbacks",
            claim=Claim(monitored),
        )

    def _of_trainer(self, run: TrainerRun, settings: TrainingArguments, callback: Location) -> Iterator[Finding[Claim]]:
        strategy = evaluation_schedule.evaluation_strategy(settings)
        has_metric = not evaluation_schedule.is_left_out(settings, "metric_for_best_model") or any(
            not evaluation_schedule.is_left_out(settings, name) for name in SETS_METRIC
        )
        is_never = strategy is not None and strategy.value == "no"
        if has_metric and not is_never:
            return
        missing = "eval_strategy" if has_metric else "metric_for_best_model"
        value = '`eval_strategy="epoch"`' if has_metric else '`metric_for_best_model="loss"`'
        made = [Related(settings.origin, f"`{missing}` is not set here", "arguments")] if settings.origin else []
        yield self.finding(
            callback,
            f"early stopping has nothing to monitor: `{missing}` is not set",
            related=[*made, Related(run.construction, "this trainer uses it", "trainer")],
            help=f"add {value} to the training arguments",
            subject="callbacks",
            claim=_setting(run, has_metric=has_metric),
        )

    def _of_keras(self, location: Location, arguments: dict[str, Argument]) -> Iterator[Finding[Claim]]:
        given = arguments.get("callbacks")
        if given is None or "**" in arguments or any(name in arguments for name in VALIDATION) or len(arguments) > MOST:
            return
        for callback in monitors.items(given.value):
            if (
                not isinstance(callback, python.LibraryObject)
                or callback.path not in MONITORS
                or callback.origin is None
            ):
                continue
            monitored = monitors.monitored(callback)
            if monitored is not None and monitored.startswith("val_"):
                yield self.finding(
                    callback.origin,
                    f"`{monitored}` is never computed, so {MONITORS[callback.path]}",
                    related=[Related(location, "no validation data here", "fit")],
                    help="pass `validation_data` or `validation_split` to `fit`, or monitor `loss`",
                    subject="callbacks",
                    level=Level.WARNING,
                    claim=Claim(monitored),
                )

    def _never_recorded(
        self, pipeline: Pipeline, location: Location, arguments: dict[str, Argument]
    ) -> Iterator[Finding[Claim]]:
        """`history.history["val_loss"]` of the only `fit` of a script, which has no validation data."""
        fits = [fit for run in pipeline.keras_runs for fit in run.fits]
        is_open = "**" in arguments or len(arguments) > MOST or any(name in arguments for name in VALIDATION)
        callbacks = monitors.items(arguments["callbacks"].value) if "callbacks" in arguments else []
        # An own callback may record what it computes, and another `fit` may be the one that is read.
        is_known = all(isinstance(each, python.LibraryObject) for each in callbacks)
        if is_open or not is_known or len(fits) != 1 or pipeline.source.contains(monitors.OTHER_FITS):
            return
        for read, key in tf_datasets.history_keys(pipeline.source):
            if key.startswith("val_"):
                yield self.finding(
                    read,
                    f"the history has no `{key}`: `fit` has no validation data",
                    related=[Related(location, "no validation data here", "fit")],
                    help="pass `validation_data` or `validation_split` to `fit`",
                    subject="history",
                )

    def _read_later(self, pipeline: Pipeline, run: KerasRun, other: str) -> Iterator[Finding[Claim]]:
        """`history.history["acc"]` of the only network of a script."""
        for location, key in tf_datasets.history_keys(pipeline.source) if len(pipeline.keras_runs) == 1 else ():
            if key.removeprefix("val_") == other:
                right = key.replace(other, monitors.ACCURACY[other])
                yield self.finding(
                    location,
                    f"the history has no `{key}`: this accuracy is called `{right}`",
                    related=_compiled(run, other),
                    help=f'read "{right}"',
                    subject="history",
                )

    def _of_accuracy(
        self, pipeline: Pipeline, run: KerasRun, arguments: dict[str, Argument], since: str
    ) -> Iterator[Finding[Claim]]:
        """The accuracy, which has the name that `compile` was given: `accuracy` or `acc`."""
        names = run.value("metrics")
        items = names.items if isinstance(names, python.Sequence) and names.is_complete else []
        given = {name for each in items if isinstance(name := python.literal(each), str)}
        other = next((monitors.ACCURACY[name] for name in given if name in monitors.ACCURACY), None)
        if other is None or len(given) != len(items) or other in given:
            return
        yield from self._read_later(pipeline, run, other)
        callbacks = monitors.items(arguments["callbacks"].value) if "callbacks" in arguments else []
        for callback in callbacks:
            is_known = isinstance(callback, python.LibraryObject) and callback.path in MONITORS
            monitored = (
                monitors.monitored(callback) if is_known and isinstance(callback, python.LibraryObject) else None
            )
            if monitored is None or monitored.removeprefix("val_") != other or callback.origin is None:
                continue
            right = monitored.replace(other, monitors.ACCURACY[other])
            yield self.finding(
                callback.origin,
                f"`{monitored}` is never computed: this accuracy is called `{right}` {since}",
                related=_compiled(run, other),
                help=f'monitor "{right}"',
                subject="callbacks",
                level=Level.WARNING,
                claim=Claim(monitored),
            )

    def _of_names(self, pipeline: Pipeline, run: KerasRun, arguments: dict[str, Argument]) -> Iterator[Finding[Claim]]:
        """Monitored names that are none of those that `compile` was given."""
        callbacks = monitors.items(arguments["callbacks"].value) if "callbacks" in arguments else []
        stock = [each for each in callbacks if isinstance(each, python.LibraryObject) and monitors.adds_no_name(each)]
        computed = monitors.computed_by_keras(pipeline, run) if callbacks and len(stock) == len(callbacks) else None
        has_validation = any(name in arguments for name in VALIDATION)
        for callback in stock if computed else ():
            monitored = monitors.monitored(callback) if callback.path in MONITORS else None
            if monitored is None or computed is None or callback.origin is None:
                continue
            is_other = monitored.startswith("val_") and not has_validation
            if not is_other and not monitors.may_be_computed(monitored, computed, run):
                names = ", ".join(
                    f"`{name}`" for name in sorted(computed - {"lr", "learning_rate", monitors.OF_ANY_OUTPUT})
                )
                yield self.finding(
                    callback.origin,
                    f"`{monitored}` is never computed, so {MONITORS[callback.path]}",
                    related=[Related(run.compiled, f"computes {names}", "compile")] if run.compiled else [],
                    help="monitor a name that `compile` gives, with `val_` for the validation data",
                    subject="callbacks",
                    level=Level.WARNING,
                    claim=Claim(monitored),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.framework == "transformers" and "stopping" in evidence.locations:
            yield self.finding(
                evidence.locations["stopping"],
                "early stopping has nothing to monitor",
                help='pass `eval_strategy="epoch"` and `metric_for_best_model="loss"` to the training arguments',
                subject="callbacks",
            )
        for callback, pattern in monitors.NOT_LOGGED.items():
            if (found := pattern.search(evidence.failure.message if evidence.failure else "")) is not None:
                yield self.finding(
                    evidence.location_of(callback),
                    f"`{found[1]}` is never logged, so the first epoch ends with an error",
                    help=f"monitor a name that the module logs, or log `{found[1]}`",
                    subject="callbacks",
                    claim=Claim(found[1]),
                )
        for name in evidence.watched_names.missing if evidence.watched_names else ():
            yield self.finding(
                evidence.location,
                f"`{name}` is monitored, but never computed",
                help="pass `validation_data` or `validation_split` to `fit`, or monitor `loss`",
                subject="callbacks",
                level=Level.WARNING,
                claim=Claim(name),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        monitored = finding.claim.monitored if finding.claim else ""
        if evidence.framework == "lightning":
            return monitors.judged_with_lightning(monitored, evidence)
        if evidence.framework == "keras":
            return monitors.judged_with_keras(monitored, evidence)
        strategy, metric = evidence.arguments.get("eval_strategy"), evidence.arguments.get("metric_for_best_model")
        if not isinstance(strategy, str):
            return Verdict.inconclusive("the training arguments were not recorded")
        if metric is None or strategy == "no":
            return Verdict.confirmed(
                f"early stopping has no value to monitor: the metric is `{metric}`, `eval_strategy` is `{strategy}`"
            )
        return Verdict.refuted(f"early stopping monitors `{metric}`, `eval_strategy` is `{strategy}`")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        made, claim = finding.with_role("arguments"), finding.claim
        if not made or claim is None or not claim.name:
            return None
        code = f'"{claim.value}"'
        edit = fixes.AddArgument(made[0].location, claim.name, code)
        return fixes.Fix.of(f"set `{claim.name}={code}`", edit, safe=False)


MOST = 12
"""With more arguments than this, one of the positional ones may be validation data."""


def _setting(run: TrainerRun, *, has_metric: bool) -> Claim:
    """The missing setting, if nothing else is missing: an evaluation also needs its rows."""
    if not has_metric:
        return Claim(name="metric_for_best_model", value="loss")
    return Claim() if python.is_missing(run.value("eval_dataset")) else Claim(name="eval_strategy", value="epoch")


def _compiled(run: KerasRun, other: str) -> list[Related]:
    """Where the accuracy got its name."""
    shown = f'`metrics=["{monitors.ACCURACY[other]}"]`'
    return [Related(run.compiled, shown, "compile")] if run.compiled else []
