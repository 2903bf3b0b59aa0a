"""What a probe measured, one section per topic, in the order of the pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from lintrain.evidence.run import (
    ColumnEvidence,
    EvaluationEvidence,
    Evidence,
    LayerGradient,
    LayerUpdate,
    MetricUse,
    SplitEvidence,
)
from lintrain.report.page.charts import Bar, Series, bars, curve
from lintrain.report.page.extras import extras_of
from lintrain.report.page.markup import Markup, Piece, figure, joined, section, table, tag
from lintrain.report.text.extra_stages import by_metric
from lintrain.report.text.stage_numbers import rates_at_shares
from lintrain.text import show_number

MOST_BARS = 24
MOST_LAYERS = 60
PER_TOKEN = "lists"
"""Columns of this kind have several labels per row."""


def _title(split: SplitEvidence) -> str:
    return f"{split.argument}[{split.key}]" if split.key else split.argument


def labels_of(evidence: Evidence) -> Iterator[Markup]:
    """The number of rows per label, for every split."""
    charts = [_histogram(split, split.labels) for split in evidence.splits if split.labels and split.labels.counts]
    if charts:
        yield section("Labels", tag("div", charts, class_="charts"))


def _histogram(split: SplitEvidence, column: ColumnEvidence) -> Markup:
    most = max(rows for _, rows in column.counts)
    total = sum(rows for _, rows in column.counts)
    entries = [
        Bar(_class_name(column, value), rows / most, f"{rows:,} ({rows / total:.0%})")
        for value, rows in column.counts[:MOST_BARS]
    ]
    left = len(column.counts) - len(entries)
    unit = "labels" if column.kind.startswith(PER_TOKEN) else "rows"
    more = f", and {left} more values" if left > 0 else ""
    caption = f"`{column.name}` of {_title(split)}: {total:,} {unit}{more}"
    return figure(caption, bars(caption, entries))


def _class_name(column: ColumnEvidence, value: int) -> str:
    return f"{value} {column.names[value]}" if 0 <= value < len(column.names) else str(value)


def lengths_of(evidence: Evidence) -> Iterator[Markup]:
    """The lengths of the rows of each split, and the positions of the model."""
    charts = [
        _lengths(evidence, split, column) for split in evidence.splits for column in split.columns if _is_long(column)
    ]
    if charts:
        yield section("Lengths", tag("div", charts, class_="charts"))


def _is_long(column: ColumnEvidence) -> bool:
    """Whether rows differ in length and the column is not a mask with the same lengths."""
    is_mask = column.name in ("attention_mask", "token_type_ids", "special_tokens_mask")
    return bool(column.length_bins) and column.lengths[0] != column.lengths[-1] and not is_mask


def _lengths(evidence: Evidence, split: SplitEvidence, column: ColumnEvidence) -> Markup:
    most = max(rows for _, _, rows in column.length_bins)
    limit = evidence.model.positions if evidence.model and column.name == "input_ids" else None
    entries = [
        Bar(
            f"{first} to {last}" if last > first else str(first),
            rows / most,
            f"{rows:,}",
            is_marked=limit is not None and last > limit,
        )
        for first, last, rows in column.length_bins
    ]
    shortest, median, high, longest = column.lengths
    summary = f"{shortest} to {longest}, median {median}, 95th percentile {high}"
    positions = f"; the model has {limit} positions" if limit is not None else ""
    caption = f"{_title(split)}: length of {column.name} in {column.rows_read:,} rows: {summary}{positions}"
    return figure(caption, bars(caption, entries))


def batches_of(evidence: Evidence) -> Iterator[Markup]:
    """The tensors that the data loader and its collator return."""
    if not evidence.batches:
        return
    rows = [
        (
            batch.argument,
            tag("code", tensor.name),
            str(list(tensor.shape)),
            tensor.dtype,
            _number(tensor.minimum),
            _number(tensor.maximum),
        )
        for batch in evidence.batches
        for tensor in batch.tensors
    ]
    collators = ", ".join(dict.fromkeys(batch.collator for batch in evidence.batches))
    caption = f"tensors of the first batch, collated by {collators}"
    yield section("Batch", table(("from", "tensor", "shape", "dtype", "min", "max"), rows, caption=caption))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def gradients_of(evidence: Evidence) -> Iterator[Markup]:
    """Gradient norms by layer, on a logarithmic scale."""
    layers = evidence.backward.layers if evidence.backward else ()
    if not layers:
        return
    means = {layer.layer: _mean(layer) for layer in layers}
    powers = [math.log10(mean) for mean in means.values() if mean > 0.0 and math.isfinite(mean)]
    low, high = (math.floor(min(powers)), max(powers)) if powers else (0.0, 1.0)
    entries = [_gradient(layer, means[layer.layer], low, high) for layer in layers[:MOST_LAYERS]]
    more = f"; {len(layers) - MOST_LAYERS} more are not shown" if len(layers) > MOST_LAYERS else ""
    caption = f"norm of the gradient in each layer, mean over the probed batches, bars on a logarithmic scale{more}"
    yield section("Gradient flow", figure(caption, bars(caption, entries)))


def _mean(layer: LayerGradient) -> float:
    return sum(layer.norms) / len(layer.norms) if layer.norms else 0.0


def _gradient(layer: LayerGradient, mean: float, low: float, high: float) -> Bar:
    if not math.isfinite(mean):
        return Bar(layer.layer, 1.0, "not finite", is_marked=True)
    if mean == 0.0:
        none = len(layer.without_gradient) == layer.parameters
        return Bar(layer.layer, 0.0, "none" if none else "0", is_marked=True)
    return Bar(layer.layer, _on_powers(mean, low, high), f"{mean:.2e}")


def updates_of(evidence: Evidence) -> Iterator[Markup]:
    """How much a step at the peak learning rate changes each layer."""
    updates = [update for update in (evidence.step.updates if evidence.step else ()) if math.isfinite(update.ratio)]
    powers = [math.log10(update.ratio) for update in updates if update.ratio > 0.0]
    if not powers:
        return
    low, high = math.floor(min(powers)), max(powers)
    entries = [_update(update, low, high) for update in updates[:MOST_LAYERS]]
    more = f"; {len(updates) - MOST_LAYERS} more are not shown" if len(updates) > MOST_LAYERS else ""
    caption = f"change of each layer in one step, relative to its weights, bars on a logarithmic scale{more}"
    yield section("Updates", figure(caption, bars(caption, entries)))


def _update(update: LayerUpdate, low: float, high: float) -> Bar:
    if update.ratio <= 0.0:
        return Bar(update.layer, 0.0, "0", is_marked=True)
    return Bar(update.layer, _on_powers(update.ratio, low, high), f"{update.ratio:.2e}")


def _on_powers(value: float, low: float, high: float) -> float:
    """The length of a bar on a logarithmic scale."""
    return 0.05 + 0.95 * (math.log10(value) - low) / ((high - low) or 1.0)


def schedule_of(evidence: Evidence) -> Iterator[Markup]:
    """The learning rate over the planned run."""
    schedule = evidence.schedule
    if schedule is None or len(schedule.rates) < 2:
        return
    drawn = curve("learning rate", "optimizer step", [Series("learning rate", schedule.rates)])
    highest = f"highest {schedule.highest:.3g} at step {schedule.highest_at + 1}"
    caption = f"{schedule.name}: learning rate over {schedule.steps:,} steps, {highest}; {rates_at_shares(schedule)}"
    yield section("Schedule", figure(caption, drawn))


def losses_of(evidence: Evidence) -> Iterator[Markup]:
    """The losses of overfitting one batch, at each of the learning rates."""
    overfit = evidence.overfit
    if overfit is None or len(overfit.losses) < 2:
        return
    runs = (
        (f"rate {overfit.learning_rate:.2g}", overfit.losses),
        ("10 times the rate", overfit.losses_at_ten_times),
        ("a tenth of the rate", overfit.losses_at_a_tenth),
    )
    series = [Series(name, tuple(enumerate(losses))) for name, losses in runs if losses]
    ends = "; ".join(
        f"{name}: {show_number(losses[0])} to {show_number(losses[-1])}" for name, losses in runs if losses
    )
    caption = f"loss on one repeated batch of {overfit.rows} rows; {ends}"
    yield section("Overfitting one batch", figure(caption, curve("loss", "step", series, by_powers=True)))


def metrics_of(evidence: Evidence) -> Iterator[Markup]:
    """The inputs and results of the metrics."""
    evaluation = evidence.evaluation
    uses = by_metric(evaluation) if evaluation else []
    if evaluation is None or not (uses or evaluation.metrics):
        return
    known = {name or use.function for use in uses for name in use.values}
    others = [
        (tag("code", name), _number(value), *(_number(scores.get(name)) for scores in _baselines(evaluation)))
        for name, value in evaluation.metrics.items()
        if name not in known
    ]
    rows = f"{evaluation.rows:,} rows of {evaluation.argument}" if evaluation.rows else evaluation.argument
    tables = (
        table(
            ("metric", "value", "constant answer", "random answer"),
            others,
            caption=f"{rows}, with the barely trained model",
        )
        if others
        else None,
        table(
            ("metric", "predictions", "labels", "result", "constant answer", "random answer"),
            [_used(use) for use in uses],
            caption="inputs and results of the metrics",
        )
        if uses
        else None,
    )
    yield section("Evaluation", tag("div", tables, class_="charts"))


def _baselines(scored: EvaluationEvidence | MetricUse) -> tuple[dict[str, float], dict[str, float]]:
    """What answers that know nothing score in the same metrics."""
    return scored.of_constant, scored.of_random


def _used(use: MetricUse) -> tuple[Piece, ...]:
    beside = (_shown(scores[name] for name in use.values if name in scores) for scores in _baselines(use))
    return (tag("code", use.function), *_inputs(use), _result(use), *beside)


def _inputs(use: MetricUse) -> tuple[str, str]:
    sides = ((use.predictions_shape, use.predictions_dtype), (use.references_shape, use.references_dtype))
    one, other = (f"{list(shape)} {dtype}" if dtype else "" for shape, dtype in sides)
    return one, other


def _result(use: MetricUse) -> Piece:
    if use.error:
        return tag("span", f"raises {use.error}", class_="status failed")
    return _shown(use.values.values())


def _shown(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def facts_of(evidence: Evidence) -> Markup:
    """Every section with measurements of this run; those of training are side by side if there is room."""
    of_data = (labels_of, lengths_of, batches_of)
    of_training = (gradients_of, updates_of, schedule_of, losses_of)
    training = [part for kind in of_training for part in kind(evidence)]
    return joined(
        [part for kind in of_data for part in kind(evidence)],
        tag("div", training, class_="charts") if training else None,
        list(metrics_of(evidence)),
        list(extras_of(evidence)),
    )
