"""Verdicts on the metric calls of an evaluation that was followed: shared by the rules about metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from lintrain.model.location import Location
from lintrain.model.verdict import Measured, Outcome, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence, MetricUse

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
SELECT_LABELS = frozenset({"labels", "sample_weight"})
Judge: TypeAlias = "Callable[[MetricUse], Verdict]"


def metric_at(evidence: Evidence, path: str, lines: tuple[int, int], judge: Judge) -> Verdict | None:
    """The verdict on the metric call in these lines of a script; None for an evaluation that was not followed."""
    evaluation = evidence.evaluation
    if evaluation is None or not evaluation.is_followed:
        return None
    uses = evaluation.used_at(path, *lines)
    return judge(uses[0]) if uses else Verdict.inconclusive("no metric was called in this line during the probe")


def metrics_confirmed(evidence: Evidence, judge: Judge) -> Iterator[tuple[Location, MetricUse, Verdict]]:
    """The metric calls for which a judge confirms the mistake, each with its location."""
    for use in evidence.evaluation.metric_uses if evidence.evaluation else ():
        verdict = judge(use)
        if use.location is not None and verdict.outcome is Outcome.CONFIRMED:
            yield use.location, use, verdict


def on_scores(use: MetricUse) -> Verdict:
    """Whether a metric that compares classes received one score per class."""
    shape: list[Measured] = [*use.predictions_shape]
    if use.error:
        if use.raises(*SCORES_RAISE) and _are_scores(use):
            return Verdict.confirmed(f"{use.got} raise {use.error} in `{use.function}`", shape=shape)
        return Verdict.inconclusive(f"`{use.function}` raised {use.error} on {use.got}")
    if use.predictions_dtype and not _are_scores(use):
        calls = "1 call" if use.calls == 1 else f"{use.calls} calls"
        return Verdict.refuted(f"`{use.function}` received {use.got} in {calls}", shape=shape)
    return Verdict.inconclusive(f"`{use.function}` received {use.got} and raised no error")


def _are_scores(use: MetricUse) -> bool:
    """Whether the predictions are floats with one axis more than the references, of several entries."""
    is_wider = len(use.predictions_shape) > max(len(use.references_shape), 1) and use.predictions_shape[-1] > 1
    return is_wider and use.predictions_dtype.startswith(("float", "bfloat"))


def on_classes(use: MetricUse) -> Verdict:
    """Whether a metric of one positive class received more than two classes."""
    if use.classes is None:
        return Verdict.inconclusive(f"the classes that `{use.function}` received could not be counted")
    text = f"{use.classes} classes in {use.references} labels"
    if use.error:
        is_this = use.raises(BINARY_RAISES) and use.classes > 2
        return (Verdict.confirmed if is_this else Verdict.inconclusive)(
            f"{text} raise {use.error}", classes=use.classes
        )
    if use.classes < 3:
        return Verdict.inconclusive(f"only {text}")
    if not use.values:
        return Verdict.inconclusive(f"{text}, and `{use.function}` returned no number")
    return Verdict.refuted(
        f"{text}, and `{use.function}` returned {next(iter(use.values.values())):.3g}", classes=use.classes
    )


def scored_ignored(evidence: Evidence) -> Iterator[tuple[Location, str, Verdict]]:
    """The location and name of each metric that also scores labels of -100 in its one number.

    Metrics of torchmetrics are excluded, because their constructor may set `ignore_index`.
    """
    for use in evidence.evaluation.metric_uses if evidence.evaluation else ():
        is_of_classes = use.library != "torchmetrics" and use.function in OF_CLASSES
        is_whole = use.predictions_dtype.startswith(("int", "uint")) and use.predictions_shape == use.references_shape
        is_all = len(use.values) == 1 and not SELECT_LABELS & set(use.options)
        if use.location is not None and use.ignored and is_of_classes and is_whole and is_all:
            number = next(iter(use.values.values()))
            text = (
                f"{use.ignored} of {use.references} labels are -100, and `{use.function}` scores them too: {number:.3g}"
            )
            yield use.location, use.function, Verdict.confirmed(text, ignored=use.ignored)


IGNORED = -100


def decoded_predictions(evidence: Evidence, *raised: str) -> str | None:
    """The variable with -100 whose decoding raised an error, if it holds predictions: not as many as labels."""
    failed, evaluation = evidence.failed_with(*raised), evidence.evaluation
    if failed is None or failed.failure is None or evaluation is None:
        return None
    decoded = (each for each in failed.failure.given if each.name.isidentifier() and each.lowest == IGNORED)
    arrays = (each for each in decoded if each.shape and math.prod(each.shape) != evaluation.labels)
    return next((each.name for each in arrays), None)
