"""What the calls of metrics in an evaluation that was followed say: shared by the rules about metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lintrain.evidence.run import Evidence, MetricUse
from lintrain.model.location import Location
from lintrain.model.verdict import Measured, Outcome, Verdict

SCORES_RAISE = (
    "mix of",
    "continuous-multioutput",
    "can be converted to Python scalars",
    "don't match the expected format",
)
BINARY_RAISES = "Target is multiclass but average='binary'"
OF_CLASSES = frozenset(
    {"accuracy", "accuracy_score", "balanced_accuracy_score", "f1", "f1_score", "matthews_corrcoef", "recall"}
)
LEAVE_OUT = frozenset({"labels", "sample_weight"})
Judge = Callable[[MetricUse], Verdict]


def metric_at(evidence: Evidence, path: str, lines: tuple[int, int], judge: Judge) -> Verdict | None:
    """What the call of a metric on some lines of a script tells; None for an evaluation that was not followed."""
    evaluation = evidence.evaluation
    if evaluation is None or not evaluation.is_followed:
        return None
    uses = evaluation.used_at(path, *lines)
    return judge(uses[0]) if uses else Verdict.inconclusive("no metric was called on this line in what was followed")


def metrics_confirmed(evidence: Evidence, judge: Judge) -> Iterator[tuple[Location, MetricUse, Verdict]]:
    """The calls of metrics that a judge confirms a mistake of, each with its place."""
    for use in evidence.evaluation.metric_uses if evidence.evaluation else ():
        verdict = judge(use)
        if use.location is not None and verdict.outcome is Outcome.CONFIRMED:
            yield use.location, use, verdict


def on_scores(use: MetricUse) -> Verdict:
    """Whether a metric that compares classes got a number for each class."""
    shape: list[Measured] = [*use.predictions_shape]
    if use.error:
        if use.raises(*SCORES_RAISE) and _are_scores(use):
            return Verdict.confirmed(f"{use.got} raise {use.error} in `{use.function}`", shape=shape)
        return Verdict.inconclusive(f"`{use.function}` ends with {use.error} on {use.got}")
    if use.predictions_dtype and not _are_scores(use):
        return Verdict.refuted(f"`{use.function}` gets {use.got}, {use.calls} times", shape=shape)
    return Verdict.inconclusive(f"`{use.function}` gets {use.got} and raises nothing")


def _are_scores(use: MetricUse) -> bool:
    """Whether the predictions have one axis more than the references, of several numbers that are not whole."""
    is_wider = len(use.predictions_shape) > max(len(use.references_shape), 1) and use.predictions_shape[-1] > 1
    return is_wider and use.predictions_dtype.startswith(("float", "bfloat"))


def on_classes(use: MetricUse) -> Verdict:
    """Whether a metric of one positive class got more than two."""
    if use.classes is None:
        return Verdict.inconclusive(f"the classes that `{use.function}` gets could not be counted")
    said = f"{use.classes} classes in {use.references} labels"
    if use.error:
        is_this = use.raises(BINARY_RAISES) and use.classes > 2
        return (Verdict.confirmed if is_this else Verdict.inconclusive)(
            f"{said} raise {use.error}", classes=use.classes
        )
    if use.classes < 3:
        return Verdict.inconclusive(f"only {said} that were looked at")
    if not use.values:
        return Verdict.inconclusive(f"{said}, and `{use.function}` gave no number")
    return Verdict.refuted(
        f"{said}, and `{use.function}` gives {next(iter(use.values.values())):.3g}", classes=use.classes
    )


def scored_ignored(evidence: Evidence) -> Iterator[tuple[Location, str, Verdict]]:
    """Where a metric gives one number for classes among which -100 is scored too, and its name.

    Metrics of torchmetrics leave out what they are told when they are made.
    """
    for use in evidence.evaluation.metric_uses if evidence.evaluation else ():
        is_of_classes = use.library != "torchmetrics" and use.function in OF_CLASSES
        is_whole = use.predictions_dtype.startswith(("int", "uint")) and use.predictions_shape == use.references_shape
        is_all = len(use.values) == 1 and not LEAVE_OUT & set(use.options)
        if use.location is not None and use.ignored and is_of_classes and is_whole and is_all:
            number = next(iter(use.values.values()))
            said = f"{use.ignored} of {use.references} labels are -100, and `{use.function}` gives {number:.3g} for all"
            yield use.location, use.function, Verdict.confirmed(said, ignored=use.ignored)
