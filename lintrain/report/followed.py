"""What a probe's evaluation stage says of an evaluation that the script or its library carried out by itself."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.core.evidence import EvaluationEvidence, MetricUse

MOST_METRICS = 3


def followed(evaluation: EvaluationEvidence) -> str:
    """Its rows, the mode of the model, its losses, and what its metrics got and gave."""
    return "; ".join(_parts(evaluation))


def _parts(evaluation: EvaluationEvidence) -> Iterator[str]:
    if evaluation.batches:
        rows = f"{evaluation.rows} rows" if evaluation.rows else "a stream"
        yield f"{rows} in {evaluation.batches} batch{'' if evaluation.batches == 1 else 'es'}"
    if evaluation.passes:
        yield _modes(evaluation)
    if evaluation.losses:
        yield f"loss {sum(evaluation.losses) / len(evaluation.losses):.3f}"
    uses = by_metric(evaluation)[:MOST_METRICS]
    yield from map(metric_line, uses)
    told = {name or use.function for use in uses for name in use.values}
    values = [f"{name} {value:.3g}" for name, value in evaluation.metrics.items() if value is not None]
    if others := [value for value in values if value.rpartition(" ")[0] not in {*told, "loss"}]:
        yield ", ".join(others)


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
    mode = f"{training} with dropout or batch norm in training mode" if training else "none in training mode"
    recorded = f"{evaluation.recorded_passes} with" if evaluation.recorded_passes else "without"
    return f"{passes} pass{'' if passes == 1 else 'es'}, {mode}, {recorded} gradients"


def metric_line(use: MetricUse) -> str:
    """What a metric got and gave, in one sentence."""
    got = f"{list(use.predictions_shape)} {use.predictions_dtype}" if use.predictions_dtype else ""
    wanted = f" and {list(use.references_shape)} {use.references_dtype}" if use.references_dtype else ""
    values = ", ".join(f"{value:.3g}" for value in use.values.values())
    gave = f" raises {use.error}" if use.error else f" gives {values}" if values else ""
    given = f" gets {got}{wanted}" if got else ""
    return f"`{use.function}`{given}{' and' if given and gave else ''}{gave}"
