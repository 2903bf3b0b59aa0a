"""The best checkpoint is selected by an error metric, but the largest value counts as the best.

By default, lower is better only for names that end in `loss`. For every other name, including an error rate or a
perplexity, the Trainer keeps the checkpoint with the largest value, which is the worst one. `greater_is_better=True`
asks for the same. A loop that keeps the best model by hand does it with the comparison turned around:
`if accuracy < best_accuracy:`.

## Bad

    def judge(prediction):
        return {"mae": float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(  # <- wrong-metric-direction
        "out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="mae"
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Good

    def judge(prediction):
        return {"mae": float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(
        "out",
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="mae",
        greater_is_better=False,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## When it is fine

The metric may be negated before it is returned:

    def judge(prediction):
        return {"mae": -float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(
        "out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="mae"
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

An argument that is set on the finished object leaves the direction unset, and the smallest value is kept:

    args = TrainingArguments("out", eval_strategy="epoch", save_strategy="best")
    args.metric_for_best_model = "wer"

## Fix

Safe: keeping the checkpoint with the worst value is never intended. Not offered where `greater_is_better=True` is set.

## References

Transformers documentation, `TrainingArguments.greater_is_better`; `TrainingArguments.__post_init__` of 4.46 to 5.23.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule as schedule
from lintrain.analysis import expressions, lightning_updates, trainer_methods, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Function,
    LibraryObject,
    Sequence,
    Unknown,
    Value,
    literal,
    text_of,
)
from lintrain.pipeline.values.training import KerasRun, TrainingArguments
from lintrain.rule import (
    ArgumentsRule,
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Verdict,
    dataclass,
    fixes,
)

KEEPS = "lightning.ModelCheckpoint"
OF_LIGHTNING = frozenset({"lightning.EarlyStopping", KEEPS})

LOWER_IS_BETTER = frozenset({"cer", "error", "eval_error", "mae", "mse", "perplexity", "ppl", "rmse", "wer"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The metric that selects the best checkpoint."""

    metric: str


class WrongMetricDirection(ArgumentsRule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Arguments|Config|best|Plateau|ModelCheckpoint|EarlyStopping"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from super().check(pipeline)
        yield from map(self._report_kept, schedule.kept_worst(pipeline.source))
        for call in pipeline.calls:
            if call.path in OF_LIGHTNING and not call.is_open:
                yield from self._of_lightning(call)
        seen = set[Location]()
        for run in pipeline.keras_runs:
            own = _own_metrics(run)
            for _, arguments in run.fits:
                for each in self._of_keras(arguments["callbacks"].value, own) if "callbacks" in arguments else ():
                    seen.add(each.location)
                    yield each
        # A `mode` that is given is the opposite whichever training gets the callback.
        for call in pipeline.calls:
            if call.path.startswith("keras.callbacks.") and call.location not in seen and not call.is_open:
                given = {name: argument.value for name, argument in call.arguments.items()}
                yield from self._of_keras(LibraryObject(call.path, given, origin=call.location), frozenset())
        found: dict[Location, Finding[Claim]] = {}
        for step in pipeline.acts(Act.SCHEDULER_STEP):
            watched, wanted = training_loops.text_of_event(step, "watched"), _direction_of(step)
            actual = _wanted(watched)
            if actual and wanted and actual != wanted:
                found.setdefault(step.location, self._report_plateau(step.location, step.subject, watched, wanted))
        for plateau, watched in lightning_updates.monitored_plateaus(pipeline):
            wanted, actual = _mode_of(plateau), _wanted_of_name(watched)
            if actual and wanted and actual != wanted and plateau.origin is not None:
                found.setdefault(plateau.origin, self._report_plateau(plateau.origin, plateau, watched, wanted))
        yield from found.values()

    def _report_kept(self, kept: schedule.KeptWorst) -> Finding[Claim]:
        which, order = ("largest", "lower") if kept.lower_is_better else ("smallest", "higher")
        shown = f"`{kept.value}`" if len(kept.value) <= 24 else "value"
        return self.finding(
            kept.location,
            f"the {which} {shown} counts as the best, but {order} is better"
            if kept.is_counted
            else f"the model with the {which} {shown} is kept, but {order} is better",
            help=f"turn the comparison with `{kept.best}` around",
            subject=kept.best,
        )

    def _of_keras(self, given: Value, own: frozenset[str]) -> Iterator[Finding[Claim]]:
        """A callback of Keras with a `mode` that is the opposite of what its metric should do, or that takes it so."""
        for callback in given.items if isinstance(given, Sequence) else [given]:
            if not isinstance(callback, LibraryObject) or not callback.path.startswith("keras.callbacks."):
                continue
            watched, mode = text_of(callback.arguments.get("monitor", UNKNOWN)), callback.arguments.get("mode", UNKNOWN)
            wanted, actual = _wanted_of_name(watched or ""), text_of(mode)
            # Of the own metrics of a script Keras 2 takes the smallest value, as does Keras 3 or it raises an error.
            is_left = actual == "auto" or not {"mode", "4", "5", "**"} & callback.arguments.keys()
            is_taken = is_left and wanted == "max" and (watched or "").removeprefix("val_") in own
            is_opposite = actual in {"min", "max"} and actual != wanted
            if wanted and (is_opposite or is_taken) and _has_effect(callback) and callback.origin is not None:
                which, order = ("smallest", "higher") if wanted == "max" else ("largest", "lower")
                yield self.finding(
                    callback.origin,
                    f"the {which} `{watched}` counts as the best, but {order} is better",
                    help=f'pass `mode="{wanted}"`',
                    subject="callbacks",
                )

    def _of_lightning(self, call: LibraryCall) -> Iterator[Finding[Claim]]:
        """A callback of Lightning that keeps or waits for the smallest value by default, of a metric that rises."""
        given = {name: argument.value for name, argument in call.arguments.items()}
        mode = text_of(given.get("mode", Constant("min")))
        watched = text_of(given.get("monitor", UNKNOWN))
        wanted = _wanted_of_name(watched or "")
        if watched is None or not wanted or mode not in {"min", "max"} or mode == wanted:
            return
        if call.path == KEEPS and literal(given.get("save_top_k", Constant(1))) in {0, -1}:
            return
        does = "keeps the checkpoint with" if call.path == KEEPS else "waits for"
        which, order = ("smallest", "higher") if wanted == "max" else ("largest", "lower")
        yield self.finding(
            call.location,
            f"`{call.path.rpartition('.')[2]}` {does} the {which} `{watched}`, but {order} is better",
            help=f'pass `mode="{wanted}"`',
            subject="callbacks",
        )

    def _report_plateau(self, location: Location, plateau: Value, watched: str, wanted: str) -> Finding[Claim]:
        way = "rise" if wanted == "min" else "fall"
        made = plateau.origin
        return self.finding(
            location,
            f"`{watched}` should {way}, but the schedule waits for the opposite",
            related=[Related(made, f"mode `{wanted}`", "schedule")] if made and made != location else [],
            help="set `mode` to " + ("`max`" if wanted == "min" else "`min`"),
        )

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        name = schedule.best_metric(arguments)
        if name is None or not schedule.is_given_in_call(arguments, "metric_for_best_model"):
            return
        wanted, asked = _better(name), _asked_for(arguments)
        # The Trainer itself takes the smallest value of a name that ends in `loss`, and the largest of any other.
        is_left = name in LOWER_IS_BETTER and schedule.is_left_out(arguments, "greater_is_better")
        is_opposite = asked is not None and bool(wanted) and asked != wanted
        # Options of both may be given together.
        given = [arguments.value(each) for each in ("metric_for_best_model", "greater_is_better")]
        rests = any(isinstance(each, Constant) and each.default is not None for each in given)
        is_opposite = is_opposite and (name in LOWER_IS_BETTER or not rests)
        if (is_left or is_opposite) and schedule.keeps_the_best(arguments) and not _is_negated(pipeline, arguments):
            yield self._report(arguments, name, wanted)

    def _report(self, settings: TrainingArguments, name: str, wanted: str) -> Finding[Claim]:
        location, is_left = settings.locations["metric_for_best_model"], _asked_for(settings) is None
        which, better = ("largest", "lower") if wanted == "min" else ("smallest", "higher")
        note = "an error metric: lower is better" if wanted == "min" else "a score: higher is better"
        return self.finding(
            settings.origin or location,
            f"the checkpoint with the {which} `{name}` is kept, but {better} is better",
            related=[Related(location, note, "metric")],
            help=f"{'add' if is_left else 'set'} `greater_is_better={wanted == 'max'}`",
            subject="metric_for_best_model",
            claim=Claim(name) if is_left else None,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        name = evidence.arguments.get("metric_for_best_model")
        value = evidence.evaluation.metrics.get(str(name).removeprefix("eval_")) if evidence.evaluation else None
        # A negated error is below 0, and a better one is the larger.
        if isinstance(name, str) and name in LOWER_IS_BETTER and value is not None and value > 0:
            yield self.finding(
                evidence.location_of("arguments"),
                f"the checkpoint with the largest `{name}` is kept, but lower is better",
                help="add `greater_is_better=False`",
                subject="metric_for_best_model",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        name = evidence.arguments.get("metric_for_best_model")
        greater = evidence.arguments.get("greater_is_better")
        if not isinstance(name, str) or not isinstance(greater, bool):
            return Verdict.inconclusive("`metric_for_best_model` is not set")
        value = evidence.evaluation.metrics.get(name.removeprefix("eval_")) if evidence.evaluation else None
        measured = f", measured as {value:.3g}" if value is not None else ""
        text = f"`greater_is_better` is {greater} for `{name}`{measured}"
        is_wrong = greater == (_better(name.removeprefix("eval_")) != "max")
        return (Verdict.confirmed if is_wrong else Verdict.refuted)(text, greater=greater)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        title = f"keep the smallest `{finding.claim.metric}`"
        return fixes.Fix.of(title, fixes.AddArgument(finding.location, "greater_is_better", "False"), safe=True)


def _asked_for(settings: TrainingArguments) -> str | None:
    """`max` or `min` as `greater_is_better` certainly says, by the call or an option that it rests on; else None."""
    value = settings.value("greater_is_better")
    is_set = isinstance(value, Constant) and isinstance(value.value, bool) and not value.may_differ
    return ("max" if value.value else "min") if is_set and isinstance(value, Constant) else None


def _better(name: str) -> str:
    """`min` or `max` for a metric of a Trainer, by its name; empty for others."""
    return "min" if name in LOWER_IS_BETTER else _wanted_of_name(name)


def _own_metrics(run: KerasRun) -> frozenset[str]:
    """The names of the metrics that are functions of the script, without those that Keras takes for an accuracy."""
    given = run.value("metrics")
    items = given.items if isinstance(given, Sequence) else [given]
    names = [each.name for each in items if isinstance(each, Function)]
    # A function of another module, which is not read, is known by its path; what a call gives has a plain name.
    names += [each.name.rpartition(".")[2] for each in items if isinstance(each, Unknown) and "." in each.name]
    return frozenset(name for name in names if "acc" not in name and not name.startswith("fmeasure"))


def _has_effect(callback: LibraryObject) -> bool:
    """Whether a callback compares what it monitors: a checkpoint does if only the best one is kept."""
    keeps = callback.arguments.get("save_best_only", Constant(False))
    return not callback.path.endswith("ModelCheckpoint") or literal(keeps) is not False


FALLS = frozenset(
    {"loss", "losses", "distance", "error", "err", "perplexity", "ppl", "mae", "mse", "rmse", "wer", "cer"}
)
RISES = frozenset(
    {"acc", "accuracy", "auc", "auroc", "bleu", "dice", "f1", "iou", "jaccard", "miou", "precision", "recall"}
)


def _wanted(watched: str) -> str:
    """`min` or `max` for a metric, by its name; empty for others, and where code computes something of it."""
    name = re.sub(r"\.item\(\)$|\[-1\]$", "", watched)
    name = re.sub(r"""^[\w.]+\[["'](\w+)["']\]$""", r"\1", name)  # `scores["auc"]`
    words = training_loops.words_of(name.rpartition(".")[2])
    is_known = bool(words & FALLS) != bool(words & RISES) and schedule.TURNED.search(name.lower()) is None
    if not re.fullmatch(r"[\w.]+", name) or not is_known:
        return ""
    return "min" if words & FALLS else "max"


def _wanted_of_name(watched: str) -> str:
    """The same for the name of a logged value, which may have parts: `val/loss`."""
    return _wanted(watched.replace("/", "_").replace("-", "_"))


def _direction_of(step: Event) -> str:
    """The `mode` of the schedule that a step certainly belongs to; empty if it watches nothing, or is not known."""
    return _mode_of(step.subject)


def _mode_of(schedule: Value) -> str:
    """The same for what is stepped."""
    if not isinstance(schedule, Scheduler) or schedule.name != "ReduceLROnPlateau" or not schedule.is_complete:
        return ""
    mode = schedule.given.get("mode")
    return "min" if mode is None else text_of(mode.value) or ""


def _is_negated(pipeline: Pipeline, settings: TrainingArguments) -> bool:
    """Whether a metric function of a run with these arguments negates or inverts a value."""
    runs = [run for run in pipeline.runs if run.value("args") is settings]
    functions = [trainer_methods.own_function(run.value("compute_metrics")) for run in runs]
    return any(
        _negates(part)
        for function in functions
        if function is not None
        for part in expressions.expressions_in(pipeline, function)
    )


def _negates(part: expressions.Expression) -> bool:
    """Whether an expression is like `-loss`, `1 - loss`, `1 / loss` or `-1 * loss`."""
    if part.kind is expressions.Kind.NEGATION:
        return part.operands[0].kind is not expressions.Kind.CONSTANT
    if part.operator in {"-", "/"}:
        return part.operands[0].kind is expressions.Kind.CONSTANT
    return part.operator == "*" and any(each.is_unary for each in part.operands)
