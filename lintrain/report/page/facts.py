"""What a probe measured, one section for each thing, in the order of the pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lintrain.core.evidence import ColumnEvidence, Evidence, LayerGradient, SplitEvidence
from lintrain.report.page.charts import Bar, Series, bars, curve
from lintrain.report.page.markup import Markup, Piece, joined, tag

MOST_BARS = 24
MOST_LAYERS = 60
PER_TOKEN = "lists"
"""Columns of this kind hold several labels in each row."""


def section(title: str, *inside: Piece) -> Markup:
    """A part of the page under a heading."""
    return tag("section", tag("h3", title), *inside)


def table(head: Sequence[str], rows: Sequence[Sequence[Piece]], *, caption: str, kind: str = "numbers") -> Markup:
    """A table; where the page is too narrow, one of `numbers` scrolls by itself, one of `words` puts the last below."""
    body = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", (tag("th", name, scope="col") for name in head))),
        tag("tbody", (tag("tr", (tag("td", cell) for cell in row)) for row in rows)),
        class_=kind,
    )
    return tag("div", body, class_="scrolls", tabindex="0", role="region", aria_label=caption)


def samples_of(evidence: Evidence) -> Iterator[Markup]:
    """Decoded rows beside their labels."""
    shown = [(split, sample) for split in evidence.splits for sample in split.samples]
    if not shown:
        return
    rows = [
        (_title(split), tag("bdi", _label(sample.label, sample.label_name)), tag("bdi", sample.text, class_="words"))
        for split, sample in shown
    ]
    caption = "rows as the model reads them, decoded, beside their labels"
    yield section("Samples", table(("split", "label", "text"), rows, caption=caption, kind="words"))


def _label(label: str, name: str | None) -> str:
    return f"{label} ({name})" if name else label


def _title(split: SplitEvidence) -> str:
    return f"{split.argument}[{split.key}]" if split.key else split.argument


def labels_of(evidence: Evidence) -> Iterator[Markup]:
    """How often each label occurs, for every split."""
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
    caption = f"{_title(split)}: {column.name} of {total:,} {unit}{more}"
    return _figure(caption, bars(caption, entries))


def _class_name(column: ColumnEvidence, value: int) -> str:
    return f"{value} {column.names[value]}" if 0 <= value < len(column.names) else str(value)


def _figure(caption: str, chart: Piece) -> Markup:
    return tag("figure", tag("figcaption", caption), chart)


def lengths_of(evidence: Evidence) -> Iterator[Markup]:
    """How many entries the lists of each split have, and the positions of the model."""
    charts = [
        _lengths(evidence, split, column) for split in evidence.splits for column in split.columns if _is_long(column)
    ]
    if charts:
        yield section("Lengths", tag("div", charts, class_="charts"))


def _is_long(column: ColumnEvidence) -> bool:
    """Whether rows differ in length, and no other column shows the same lengths again."""
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
    said = f"{shortest} to {longest}, median {median}, 95 % up to {high}"
    positions = f"; the model has {limit} positions" if limit is not None else ""
    caption = f"{_title(split)}: length of {column.name} in {column.rows_read:,} rows: {said}{positions}"
    return _figure(caption, bars(caption, entries))


def batches_of(evidence: Evidence) -> Iterator[Markup]:
    """What the loader and its collator put together."""
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
    caption = f"tensors of the first batch, put together by {collators}"
    yield section("Batch", table(("from", "tensor", "shape", "dtype", "least", "most"), rows, caption=caption))


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
    more = f"; {len(layers) - MOST_LAYERS} more are left out" if len(layers) > MOST_LAYERS else ""
    caption = f"norm of the gradient in each layer, mean over the probed batches, bars on a logarithmic scale{more}"
    yield section("Gradient flow", _figure(caption, bars(caption, entries)))


def _mean(layer: LayerGradient) -> float:
    return sum(layer.norms) / len(layer.norms) if layer.norms else 0.0


def _gradient(layer: LayerGradient, mean: float, low: float, high: float) -> Bar:
    if not math.isfinite(mean):
        return Bar(layer.layer, 1.0, "not finite", is_marked=True)
    if mean == 0.0:
        none = len(layer.without_gradient) == layer.parameters
        return Bar(layer.layer, 0.0, "none" if none else "0", is_marked=True)
    share = 0.05 + 0.95 * (math.log10(mean) - low) / ((high - low) or 1.0)
    return Bar(layer.layer, share, f"{mean:.2e}")


def schedule_of(evidence: Evidence) -> Iterator[Markup]:
    """The learning rate over the planned run."""
    schedule = evidence.schedule
    if schedule is None or len(schedule.rates) < 2:
        return
    drawn = curve("learning rate", "optimizer step", [Series("learning rate", schedule.rates)])
    highest = f"at most {schedule.highest:.3g}, at step {schedule.highest_at + 1}"
    caption = f"{schedule.name}: learning rate over {schedule.steps:,} steps, {highest}, {schedule.last:.3g} at the end"
    yield section("Schedule", _figure(caption, drawn))


def losses_of(evidence: Evidence) -> Iterator[Markup]:
    """The losses of overfitting one batch, at each of the learning rates."""
    overfit = evidence.overfit
    if overfit is None or len(overfit.losses) < 2:
        return
    runs = (
        (f"rate {overfit.learning_rate:.2g}", overfit.losses),
        ("ten times that", overfit.losses_at_ten_times),
        ("a tenth of it", overfit.losses_at_a_tenth),
    )
    series = [Series(name, tuple(enumerate(losses))) for name, losses in runs if losses]
    ends = "; ".join(f"{name}: {losses[0]:.3f} to {losses[-1]:.3f}" for name, losses in runs if losses)
    caption = f"loss on one repeated batch of {overfit.rows} rows; {ends}"
    yield section("Overfitting one batch", _figure(caption, curve("loss", "step", series)))


def facts_of(evidence: Evidence) -> Markup:
    """Every section that this run has something for."""
    kinds = (samples_of, labels_of, lengths_of, batches_of, gradients_of, schedule_of, losses_of)
    return joined(part for kind in kinds for part in kind(evidence))
