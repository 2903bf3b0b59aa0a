"""The key numbers of a stage in one line.

The aligned lines below the first line of a stage, and the learning rate as a small chart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lintrain.evidence.run import (
    BackwardEvidence,
    BatchEvidence,
    ColumnEvidence,
    Evidence,
    LayerGradient,
    ResponseEvidence,
    ScheduleEvidence,
    SplitEvidence,
    StepEvidence,
)
from lintrain.report.text.extra_stages import Line, beside, followed, lines_of_extra, numbers_of_extra, rows_read
from lintrain.report.text.rows import kept_of_texts
from lintrain.report.text.short_runs import (
    BLOCKS,
    LETTERS,
    MOST_CLASSES,
    bar_of,
    overfit_lines,
    overfit_numbers,
    short_rate,
    trial_lines,
)
from lintrain.report.text.style import Style, clip, columns, printable, wrap
from lintrain.source.source import FindSource, Source, line_of
from lintrain.text import show_number


def no_source(_path: str) -> Source | None:
    """No source, so that lines are those of the text that was read."""
    return None


def numbers(evidence: Evidence, name: str, find_source: FindSource = no_source) -> str:
    """The key numbers of a stage that passed."""
    match name:
        case "script":
            return f"reached {_call(evidence, find_source)}" if evidence.call else ""
        case "dataset":
            return "; ".join(_split(evidence, split) for split in evidence.splits)
        case "batch":
            return "; ".join(_batch(batch) for batch in evidence.batches if batch.argument == "train_dataset")
        case "forward":
            return _forward(evidence)
        case "backward":
            return _backward(evidence)
        case "step":
            return _step(evidence)
        case "evaluation":
            return _evaluation(evidence)
        case "overfit":
            return overfit_numbers(evidence)
        case "trials":
            return "; ".join(f"{about} {text}" for about, text in trial_lines(evidence, is_drawn=False))
        case _:
            return numbers_of_extra(evidence, name)


def _call(evidence: Evidence, find_source: FindSource) -> str:
    location = evidence.call
    return f"the training call at {line_of(location, find_source)}" if location else ""


def _split(evidence: Evidence, split: SplitEvidence) -> str:
    key = f"[{split.key}]" if split.key else ""
    rows = f"{split.rows} rows" if split.rows is not None else "a stream"
    first = evidence.splits[0]
    is_alike = split is not first and split.column_names == first.column_names
    names = ", ".join(column.name for column in split.columns)
    columns = f" [{names}]" if names and not is_alike else ""
    labels = f", {_labels(split.labels)}{_of_read_rows(split, split.labels)}" if split.labels else ""
    return f"{split.argument}{key} {rows}{columns}{labels}"


def _of_read_rows(split: SplitEvidence, labels: ColumnEvidence) -> str:
    """How many rows the labels are of, where some were not read: in a run on a GPU, or where time was short."""
    is_part = split.rows is not None and 0 < labels.rows_read < split.rows
    return f" (in {labels.rows_read} rows that were read)" if is_part else ""


def _labels(column: ColumnEvidence) -> str:
    if not column.counts or len(column.counts) > MOST_CLASSES:
        if column.minimum is None:
            return f"{column.name} {column.kind}"
        return f"{column.name} {column.minimum:g} to {column.maximum:g}"
    return f"{column.name}: {', '.join(_rows_of_class(column, value, rows) for value, rows in column.counts)}"


def _rows_of_class(column: ColumnEvidence, value: int, rows: int) -> str:
    """`joy 2750`; `89 of class 0` where classes have no names, because two bare numbers are read as one."""
    return f"{column.names[value]} {rows}" if 0 <= value < len(column.names) else f"{rows} of class {value}"


def _batch(batch: BatchEvidence) -> str:
    shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in batch.tensors)
    padding = ""
    if batch.attended_tokens is not None and batch.padding_tokens is not None:
        total = batch.attended_tokens + batch.padding_tokens
        padding = f", {batch.padding_tokens / total:.0%} padding" if total else ""
    return f"{batch.collator}: {shapes}{padding}"


def _forward(evidence: Evidence) -> str:
    forward = evidence.forward
    if forward is None:
        return ""
    mean = sum(forward.losses) / len(forward.losses)
    chance = f", chance level {forward.chance:.3f}" if forward.chance is not None else ""
    shape = f", logits {list(forward.logits_shape)}" if forward.logits_shape else ""
    batches = f"{len(forward.losses)} batch{'' if len(forward.losses) == 1 else 'es'}"
    return f"loss {show_number(mean)} over {batches}{chance}{shape}{output_effects(evidence.responses)}"


def _backward(evidence: Evidence) -> str:
    backward = evidence.backward
    if backward is None or not backward.norms:
        return ""
    mean = [sum(layer.norms) / len(layer.norms) for layer in backward.layers]
    lost = sum(not math.isfinite(norm) for norm in mean)
    if lost:
        layers = f"NaN or infinity in {lost} of {len(mean)} layers"
        bad = sum(not math.isfinite(norm) for norm in backward.norms)
        return f"{layers}, in {bad} of {len(backward.norms)} backward passes"
    span = f", by layer {min(mean):.1e} to {max(mean):.1e}" if mean else ""
    return f"gradient norm {show_number(max(backward.norms), '.3g')}{span}{extremes(backward)}"


def _step(evidence: Evidence) -> str:
    step = evidence.step
    if step is None:
        return ""
    rates = sorted({group.learning_rate for group in step.groups})
    shown = ", ".join(f"{rate:.2g}" for rate in rates)
    changed = f"{step.changed_tensors} of {step.trainable_tensors} tensors changed{movement(evidence)}"
    return f"{step.optimizer}, learning rate {shown}{_schedule(evidence)}; {changed}"


def _schedule(evidence: Evidence) -> str:
    """The step of the highest rate, if the rate changes."""
    schedule = evidence.schedule
    if schedule is None or is_constant(schedule):
        return ""
    return f" at step {schedule.highest_at + 1} of {schedule.steps}"


def _evaluation(evidence: Evidence) -> str:
    evaluation = evidence.evaluation
    if evaluation is None:
        return ""
    if evaluation.is_followed:
        return "; ".join(f"{about} {text}" for about, text in followed(evidence))
    if not evaluation.has_metric_function:
        return f"{evaluation.rows} rows, no metric function"
    if not evaluation.metric_function_called:
        return f"{evaluation.rows} rows, metric function not called"
    metrics = ", ".join(
        f"{name} {show_number(value, '.3g')}{beside(name, evaluation)}"
        for name, value in evaluation.metrics.items()
        if value is not None
    )
    rows = f"{evaluation.rows} rows" if evaluation.rows else "a stream"
    return f"{rows}: {metrics or 'the metric function returned no number'}"


EQUAL = 1e-6
MOST_NAMES = 2


def output_effects(responses: ResponseEvidence | None) -> str:
    """Whether the output depends on rows, mask and later tokens, as far as it was measured."""
    if responses is None:
        return ""
    return f"{_same_output(responses)}{_mask_effect(responses)}{_future(responses)}{_invariants(responses)}"


def _same_output(responses: ResponseEvidence) -> str:
    spread = responses.spread
    if spread is None or spread.before is None or spread.before > EQUAL:
        return ""
    return f"; {spread.rows} different rows have the same output"


def _mask_effect(responses: ResponseEvidence) -> str:
    mask = responses.mask
    if mask is None:
        return ""
    if mask.given:
        return f"; without the mask the output changes by {mask.change:.2g} of its maximum"
    return f"; the missing mask would change the output by {mask.change:.2g} of its maximum"


def _future(responses: ResponseEvidence) -> str:
    future = responses.future
    return f"; changing the next token changes it by {future.change:.2g}" if future else ""


SMALL = 1e-3


def _invariants(responses: ResponseEvidence) -> str:
    """What tokens, their order, padding and a cache do to outputs, where it is worth a look."""
    tokens, cache, found = responses.tokens, responses.cache, list[str]()
    if tokens is not None and tokens.by_padding is not None and tokens.by_cut is not None:
        if min(tokens.by_padding, tokens.by_cut) > SMALL:
            found.append(f"removing its padding changes the output for a row by {show_number(tokens.by_cut, '.2g')}")
        elif tokens.pads_left and tokens.by_cut > SMALL:
            found.append(f"positions count the left padding: without it the output changes by {tokens.by_cut:.2g}")
    if tokens is not None and tokens.by_order is not None and tokens.by_order <= EQUAL < tokens.by_others:
        found.append("the order of the tokens does not change the output")
    if cache is not None:
        found.append(f"with the cache in `{cache.argument}` the output changes by {show_number(cache.change, '.2g')}")
    return "".join(f"; {text}" for text in found)


def extremes(backward: BackwardEvidence) -> str:
    """The layers with zero gradient, and the layer with the smallest gradient relative to its weights."""
    dead = [layer.layer for layer in backward.layers if layer.norms and not any(layer.norms)]
    alive = {layer.layer: max(layer.norms) / layer.weight_norm for layer in backward.layers if _is_comparable(layer)}
    least = min(alive, key=lambda name: alive[name], default=None)
    none = f"; zero in {_names(dead)}" if dead else ""
    return (
        f"{none}; smallest relative to its weights in {least} ({alive[least]:.1e})"
        if least and len(alive) > 1
        else none
    )


def _is_comparable(layer: LayerGradient) -> bool:
    return any(layer.norms) and layer.weight_norm > 0


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def movement(evidence: Evidence) -> str:
    """How much a step changes the layers, what rounding loses, and which frozen parts change."""
    step = evidence.step
    return f"{_updates(step)}{_rounding(evidence, step)}{_frozen(step)}" if step else ""


def _updates(step: StepEvidence) -> str:
    ratios = [update.ratio for update in step.updates if math.isfinite(update.ratio)]
    if not ratios:
        return ""
    low, high = min(ratios), max(ratios)
    span = f"{low:.1e} to {high:.1e}" if len(ratios) > 1 else f"{low:.1e}"
    return f", by {span} of a layer's weights per step"


def _rounding(evidence: Evidence, step: StepEvidence) -> str:
    formats = [name for name in (evidence.model.formats if evidence.model else {}) if name in ("bfloat16", "float16")]
    if not formats or step.changed_share is None:
        return ""
    return f"; {step.changed_share:.0%} of the {formats[0]} weights changed"


def _frozen(step: StepEvidence) -> str:
    moved = f"; frozen {_names(list(step.frozen_moved))} changed" if step.frozen_moved else ""
    norms = step.frozen_statistics
    return f"{moved}; running statistics of {norms} frozen batch norm{'s' * (norms != 1)} changed" if norms else moved


SHORTEST = 10
"""The least width of labels, which aligns the lines of several stages."""
LONGEST = 20
"""The largest width of labels: names of metric classes are long."""


def details_below(evidence: Evidence, name: str) -> list[Line]:
    """The lines below the first line of a stage that are words: what the sweep found, what is left of the texts."""
    if name == "dataset" and evidence.stage("rows") is None:
        return list(rows_read(evidence, only_telling=True))
    if name == "batch" and (kept := ", ".join(kept_of_texts(evidence))):
        return [("texts" if evidence.encodings else "rows", kept)]
    return []


def lines_below(evidence: Evidence, name: str, style: Style) -> list[Line]:
    """The lines below the first line of a stage, with the learning rate as a small chart."""
    if details := details_below(evidence, name):
        return details
    schedule = evidence.schedule
    if name == "step" and evidence.step is not None and schedule is not None and not is_constant(schedule):
        return [("rate", f"{picture_of(schedule, style)} over {schedule.steps} steps"), ("", rates_at_shares(schedule))]
    return []


def aligned(lines: list[Line], indent: int, style: Style) -> Iterator[str]:
    """Lines in two aligned columns: labels, and what was measured."""
    named = [(clip(printable(name), LONGEST), text) for name, text in lines]
    width = max(SHORTEST, *(columns(name) for name, _ in named))
    for name, text in named:
        first, *rest = wrap(printable(text), 0, 0, max(style.width - indent - width - 2, 20))
        yield f"{style.paint(f'{name:<{width}}', dim=True)}  {first}"
        for line in rest:
            yield " " * (width + 2) + line


def extra_lines(evidence: Evidence, name: str, style: Style | None = None) -> list[Line]:
    """The lines of an extra stage, or of an evaluation that the script ran itself; none for other stages."""
    if name == "trials":
        return list(trial_lines(evidence, signs=BLOCKS if style is None or style.unicode else LETTERS))
    if name == "evaluation" and evidence.evaluation is not None and evidence.evaluation.is_followed:
        return followed(evidence)
    return list(overfit_lines(evidence)) if name == "overfit" else lines_of_extra(evidence, name)


SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
CELLS = 24


def picture_of(schedule: ScheduleEvidence, style: Style, cells: int = CELLS) -> str:
    """A bar for each part of the run, as high as the rate; the lowest bar means 0."""
    signs = BLOCKS if style.unicode else LETTERS
    rates = [schedule.rate_at(cell / (cells - 1)) for cell in range(cells)]
    return "".join(bar_of(rate / schedule.highest if schedule.highest > 0 else 0.0, signs) for rate in rates)


def rates_at_shares(schedule: ScheduleEvidence) -> str:
    """The learning rate at 0, 10, 50, 90 and 100 percent of the run."""
    return ", ".join(f"{short_rate(schedule.rate_at(share))} at {share:.0%}" for share in SHARES)


def is_constant(schedule: ScheduleEvidence) -> bool:
    """Whether the rate never changes."""
    return all(rate == schedule.highest for _, rate in schedule.rates)
