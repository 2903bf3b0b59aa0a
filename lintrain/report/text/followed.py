"""What a probe's evaluation stage says of an evaluation that the script or its library carried out by itself."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.evidence.run import EvaluationEvidence, MetricUse
from lintrain.report.text.extra_stages import Line

MOST_METRICS = 3


def followed(evaluation: EvaluationEvidence) -> list[Line]:
    """Its rows, the mode of the model, its losses, and what its metrics got and gave."""
    return list(_lines(evaluation))


def _lines(evaluation: EvaluationEvidence) -> Iterator[Line]:
    if evaluation.batches:
        rows = f"{evaluation.rows} rows" if evaluation.rows else "a stream"
        yield "data", f"{rows} in {evaluation.batches} batch{'' if evaluation.batches == 1 else 'es'}"
    if evaluation.passes:
        yield "model", _modes(evaluation)
    if evaluation.losses:
        yield "loss", f"{sum(evaluation.losses) / len(evaluation.losses):.3f}"
    uses = by_metric(evaluation)[:MOST_METRICS]
    yield from ((use.function, _use(use)) for use in uses)
    told = {"loss", *(name or use.function for use in uses for name in use.values)}
    others = {name: value for name, value in evaluation.metrics.items() if value is not None and name not in told}
    if others:
        yield "values", ", ".join(f"{name} {value:.3g}" for name, value in others.items())


def by_metric(evaluation: EvaluationEvidence) -> list[MetricUse]:
    """One call of each metric: one that raised, else one that gave numbers, else the first."""
    best: dict[str, MetricUse] = {}
    for use in evaluation.metric_uses:
        known = best.get(use.function)
        if known is None or (bool(use.error), bool(use.values)) > (bool(known.error), bool(known.values)):
            best[use.function] = use
    return list(best.values())


def _modes(evaluation: EvaluationEvidence) -> str:
    passes, training = evaluation.passes, evaluation.passes_in_training_mode
    mode = f"{training} with dropout or batch norm in training mode" if training else "in evaluation mode"
    recorded = f"{evaluation.recorded_passes} with" if evaluation.recorded_passes else "without"
    return f"{passes} pass{'' if passes == 1 else 'es'}, {mode}, {recorded} gradients"


def _use(use: MetricUse) -> str:
    """What a metric got and gave."""
    sides = ((use.predictions_shape, use.predictions_dtype), (use.references_shape, use.references_dtype))
    got = " and ".join(f"{list(shape)} {dtype}" for shape, dtype in sides if dtype)
    values = ", ".join(f"{value:.3g}" for value in use.values.values())
    gave = f"raises {use.error}" if use.error else f"gives {values}" if values else ""
    return " ".join(part for part in (f"gets {got}" if got else "", "and" if got and gave else "", gave) if part)
