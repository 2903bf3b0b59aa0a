"""Metrics of `evaluate`: which are loaded, and what they are given to judge."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function, method, subscript_of
from lintrain.libraries.numpy.arrays import note_tuple
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import UNKNOWN, Constant, LibraryObject, Mapping, Sequence, Value, literal
from lintrain.pipeline.values.training import Metric, MetricCall

CLASS_METRICS = frozenset(
    {"accuracy", "confusion_matrix", "exact_match", "f1", "matthews_correlation", "precision", "recall"}
)
"""Metrics that compare classes one by one (evaluate 0.4: their `predictions` are an integer feature)."""

SCORE_TASKS = frozenset({("glue", "stsb")})
"""Configurations of a class metric that compare numbers: STS-B is a regression."""

TASK_METRICS = frozenset({"glue", "super_glue"})
"""Metrics with a configuration for each task; all but the score tasks compare classes."""

RESULTS = {
    "accuracy": ("accuracy",),
    "bertscore": ("precision", "recall", "f1", "hashcode"),
    "bleu": ("bleu", "precisions", "brevity_penalty", "length_ratio", "translation_length", "reference_length"),
    "brier_score": ("brier_score",),
    "chrf": ("score", "char_order", "word_order", "beta"),
    "exact_match": ("exact_match",),
    "f1": ("f1",),
    "google_bleu": ("google_bleu",),
    "mae": ("mae",),
    "matthews_correlation": ("matthews_correlation",),
    "mean_iou": ("mean_iou", "mean_accuracy", "overall_accuracy", "per_category_iou", "per_category_accuracy"),
    "meteor": ("meteor",),
    "mse": ("mse",),
    "pearsonr": ("pearsonr",),
    "precision": ("precision",),
    "recall": ("recall",),
    "roc_auc": ("roc_auc",),
    "rouge": ("rouge1", "rouge2", "rougeL", "rougeLsum"),
    "sacrebleu": ("score", "counts", "totals", "precisions", "bp", "sys_len", "ref_len"),
    "spearmanr": ("spearmanr",),
    "squad": ("exact_match", "f1"),
}
"""What a metric's `compute` gives, by name (evaluate 0.4)."""

NUMBERS = frozenset({"cer", "r_squared", "wer"})
"""Metrics whose `compute` gives a number."""

TASK_RESULTS = {
    "cola": ("matthews_correlation",),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
    "stsb": ("pearson", "spearmanr"),
}
"""What the `glue` metric gives for these tasks; the accuracy for all others."""

BY_POSITION = "metric by position"
"""The use of a metric's method with arguments that have no name, which `evaluate` accepts in no version."""

DATASET_METHODS = ("map", "filter", "select", "shuffle", "train_test_split", "rename_column", "remove_columns")


@function("evaluate.load", "datasets.load_metric")
def _load(call: Call) -> Value:
    name = literal(call.value("path", 0))
    config = literal(call.value("config_name", 1))
    return _metric(call, name if isinstance(name, str) else None, config if isinstance(config, str) else None)


def _metric(call: Call, name: str | None, config: str | None) -> Metric:
    made = Metric("evaluate", name, config, call.text, takes_classes(name, config), origin=call.location)
    call.reader.record.metrics.append(made)
    return made


def takes_classes(name: str | None, config: str | None) -> bool | None:
    """Whether a metric's predictions must be classes; None if it is not one of the known."""
    if name is None:
        return None
    if name in TASK_METRICS:
        # The configuration decides: `glue` without one raises, and which task it would be is not known.
        return None if config is None else (name, config) not in SCORE_TASKS
    return True if name in CLASS_METRICS else None


@function("evaluate.combine")
def _combine(call: Call) -> Value:
    """Several metrics in one: they want classes if all of them do."""
    given = call.value("evaluations", 0)
    listed = given.items if isinstance(given, Sequence) and given.is_complete else []
    parts = tuple(part for each in listed if (part := _part(call, each)) is not None)
    wanted = {part.takes_classes for part in parts} if len(parts) == len(listed) else set[bool | None]()
    made = _metric(call, None, None)
    # Metrics that want different things cannot be given the same predictions, and rules leave that to the
    # run.
    made.takes_classes = wanted.pop() if len(wanted) == 1 else None
    made.parts = parts if len(parts) == len(listed) else ()
    return made


def _part(call: Call, value: Value) -> Metric | None:
    """One of the combined metrics, given itself or by its name."""
    if isinstance(value, Metric):
        return value
    name = literal(value)
    if not isinstance(name, str):
        return None
    return Metric("evaluate", name, None, call.text, takes_classes(name, None), origin=call.location)


@method(Metric, "compute", "add_batch", "add")
def _compute(call: Call) -> Value:
    """Predictions and references come by name; older versions took them by position too."""
    metric = call.receiver
    if not isinstance(metric, Metric):
        return UNKNOWN
    if call.positional and not call.is_open and metric.text.startswith("evaluate."):
        call.reader.record.misuses.append(Misuse(call.location, UNKNOWN, BY_POSITION, call.path.rpartition(".")[2]))
    predictions = call.argument("predictions", 0) or call.argument("prediction")
    references = call.argument("references", 1) or call.argument("reference")
    if predictions is not None or references is not None:
        note_metric_call(call, metric, predictions, references)
    return result_of(metric, call.location) if call.path.endswith("compute") else Constant(None)


def result_of(metric: Metric, location: Location) -> Value:
    """What computing a metric gives: its numbers by name, a bare number, or something that is not known."""
    number = LibraryObject("evaluate.number", origin=location)
    names = _result_names(metric)
    if metric.name in NUMBERS:
        return number
    # The names matter to `metric_for_best_model`; the numbers are the same unknown number under each.
    return Mapping(dict.fromkeys(names, number), origin=location) if names else LibraryObject("evaluate.result")


def _result_names(metric: Metric) -> tuple[str, ...]:
    if metric.parts:
        every = [_result_names(part) for part in metric.parts]
        return tuple(name for names in every for name in names) if all(every) else ()
    if metric.name == "glue" and metric.config is not None:
        return TASK_RESULTS.get(metric.config, ("accuracy",))
    return RESULTS.get(metric.name or "", ())


def note_metric_call(call: Call, metric: Metric, predictions: Argument | None, references: Argument | None) -> None:
    """Record what a metric is given; a tuple of a model's outputs is no predictions for any metric."""
    average = UNKNOWN if "**" in call.keywords else call.value("average")
    made = MetricCall(metric, call.location, predictions, references, average, call.node is not None)
    call.reader.record.metric_calls.append(made)
    if predictions is not None:
        note_tuple(call, predictions.value, predictions.text, predictions.location, "compute")


@subscript_of(Metric)
def _subscript(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """A metric has no splits: it is taken for a data set."""
    reader.record.misuses.append(Misuse(location, value, "subscript", reader.code(location)))
    return UNKNOWN


@method(Metric, *DATASET_METHODS)
def _use_as_dataset(call: Call) -> Value:
    call.reader.record.misuses.append(Misuse(call.location, call.receiver, call.path.rpartition(".")[2], call.text))
    return UNKNOWN
