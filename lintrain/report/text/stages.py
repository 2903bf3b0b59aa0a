"""The stages of a probe for a person: what each measured, in one line, and the error of the one that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lintrain.evidence.run import BatchEvidence, ColumnEvidence, Evidence, SplitEvidence, Stage
from lintrain.report.text.columns import clip, columns, printable, wrap
from lintrain.report.text.extra_stages import numbers_of_extra
from lintrain.report.text.followed import followed
from lintrain.report.text.movement import asked_again, extremes, movement
from lintrain.report.text.schedule_line import is_constant
from lintrain.report.text.stage_lines import aligned, extra_lines, lines_below
from lintrain.report.text.style import Style
from lintrain.source.source import Source
from lintrain.source.written_places import FindSource, line_of

MOST_CLASSES = 8
INDENT = 27
"""The column in which what a stage measured begins."""
STATUS_SIGNS = {"passed": ("✓", "+"), "failed": ("✗", "x"), "not reached": ("·", "-")}
STATUS_COLOURS = {"passed": "green", "failed": "red", "not reached": "yellow"}


def no_source(_path: str) -> Source | None:
    """No source at all, for a reader who has none: lines are then those of the text that was read."""
    return None


def run_lines(evidence: Evidence, style: Style, find_source: FindSource = no_source) -> Iterator[str]:
    """A heading, a line per stage, and samples of what the model reads."""
    yield from _wrapped("", _heading(evidence), 2, style)
    for stage in evidence.stages:
        if stage.status != "not reached":
            yield from _stage(evidence, stage, style, find_source)
    yield from _not_reached(evidence, style)
    for sample in samples(evidence):
        yield f"    {style.paint('sample', dim=True)}  {clip(printable(sample), style.width - 12)}"
    yield from note_lines((*evidence.shortcuts, *evidence.notes), style)


def note_lines(notes: Iterable[str], style: Style) -> Iterator[str]:
    """Notes on a run, or on the whole probe."""
    for note in notes:
        yield from _wrapped(f"    {style.paint('note', dim=True)}    ", note, 12, style)


def _heading(evidence: Evidence) -> str:
    named = ("keras", "tf_keras", "tensorflow") if evidence.framework == "keras" else ()
    shown = [name for name in (*named, "transformers", "torch") if name in evidence.versions]
    versions = ", ".join(f"{name} {evidence.versions[name]}" for name in shown)
    what = f"{evidence.model.name} under {evidence.trainer}, " if evidence.model else ""
    return f"{evidence.script}: {what}on {evidence.device}{f' ({versions})' if versions else ''}"


def sign(status: str, style: Style) -> str:
    """The sign of a stage's status, in its colour."""
    return style.paint(STATUS_SIGNS[status][0 if style.unicode else 1], STATUS_COLOURS[status], bold=True)


def _stage(evidence: Evidence, stage: Stage, style: Style, find_source: FindSource) -> Iterator[str]:
    seconds = f"{stage.seconds:6.2f} s" if stage.seconds >= 0.005 else " " * 8
    head = f"  {sign(stage.status, style)} {stage.name:<12} {seconds}  "
    said = _error(stage) or stage.reason
    if not said and (lines := extra_lines(evidence, stage.name)):
        first, *rest = aligned(lines, INDENT, style)
        yield f"{head}{first}".rstrip()
    else:
        yield from _wrapped(head, said or numbers(evidence, stage.name, find_source), INDENT, style)
        lines = [] if said else lines_below(evidence, stage.name, style)
        rest = list(aligned(lines, INDENT, style)) if lines else []
    for line in rest:
        yield f"{' ' * INDENT}{line}".rstrip()


def _not_reached(evidence: Evidence, style: Style) -> Iterator[str]:
    """One line for all stages that were not reached for the same reason."""
    reasons: dict[str, list[str]] = {}
    for stage in evidence.stages:
        if stage.status == "not reached":
            reasons.setdefault(stage.reason, []).append(stage.name)
    for reason, names in reasons.items():
        yield from _wrapped(f"  {sign('not reached', style)} ", f"not reached: {', '.join(names)} ({reason})", 4, style)


def _wrapped(head: str, text: str, indent: int, style: Style) -> Iterator[str]:
    first, *rest = wrap(printable(text), indent, indent, style.width)
    yield f"{head}{first}".rstrip()
    for line in rest:
        yield " " * indent + line


def _error(stage: Stage) -> str:
    failure = stage.failure
    if failure is None:
        return ""
    return f"{failure.type}: {failure.message.splitlines()[0] if failure.message else ''}{_about(stage)}"


def _about(stage: Stage) -> str:
    return f" ({stage.reason})" if stage.reason else ""


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
            return _overfit(evidence)
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
    said = f", {_labels(split.labels)}" if split.labels else ""
    return f"{split.argument}{key} {rows}{columns}{said}"


def _labels(column: ColumnEvidence) -> str:
    if not column.counts or len(column.counts) > MOST_CLASSES:
        if column.minimum is None:
            return f"{column.name} {column.kind}"
        return f"{column.name} {column.minimum:g} to {column.maximum:g}"
    named = (f"{_class_name(column, value)} {rows}" for value, rows in column.counts)
    return f"{column.name}: {', '.join(named)}"


def _class_name(column: ColumnEvidence, value: int) -> str:
    return column.names[value] if 0 <= value < len(column.names) else str(value)


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
    chance = f", chance is {forward.chance:.3f}" if forward.chance is not None else ""
    shape = f", logits {list(forward.logits_shape)}" if forward.logits_shape else ""
    batches = f"{len(forward.losses)} batch{'' if len(forward.losses) == 1 else 'es'}"
    return f"loss {mean:.3f} over {batches}{chance}{shape}{asked_again(evidence.responses)}"


def _backward(evidence: Evidence) -> str:
    backward = evidence.backward
    if backward is None or not backward.norms:
        return ""
    mean = [sum(layer.norms) / len(layer.norms) for layer in backward.layers]
    span = f", by layer {min(mean):.1e} to {max(mean):.1e}" if mean else ""
    return f"gradient norm {max(backward.norms):.3g}{span}{extremes(backward)}"


def _step(evidence: Evidence) -> str:
    step = evidence.step
    if step is None:
        return ""
    rates = sorted({group.learning_rate for group in step.groups})
    shown = ", ".join(f"{rate:.2g}" for rate in rates)
    changed = f"{step.changed_tensors} of {step.trainable_tensors} tensors changed{movement(evidence)}"
    return f"{step.optimizer}, learning rate {shown}{_schedule(evidence)}; {changed}"


def _schedule(evidence: Evidence) -> str:
    """How the rate goes over the run, where it does not stay."""
    schedule = evidence.schedule
    if schedule is None or is_constant(schedule):
        return ""
    return f" at step {schedule.highest_at + 1} of {schedule.steps}"


def _evaluation(evidence: Evidence) -> str:
    evaluation = evidence.evaluation
    if evaluation is None:
        return ""
    if evaluation.is_followed:
        return "; ".join(f"{about} {text}" for about, text in followed(evaluation))
    if not evaluation.has_metric_function:
        return f"{evaluation.rows} rows, no metric function"
    if not evaluation.metric_function_called:
        return f"{evaluation.rows} rows: the metric function was not called"
    metrics = ", ".join(f"{name} {value:.3g}" for name, value in evaluation.metrics.items() if value is not None)
    rows = f"{evaluation.rows} rows" if evaluation.rows else "a stream"
    return f"{rows}: {metrics or 'the metric function gave no number'}"


def _overfit(evidence: Evidence) -> str:
    overfit = evidence.overfit
    if overfit is None or not overfit.losses or not overfit.losses_at_ten_times:
        return ""
    first, last, at_ten = overfit.losses[0], overfit.losses[-1], overfit.losses_at_ten_times[-1]
    falls = f"loss {first:.3f} to {last:.3f} in {overfit.steps} steps on {overfit.rows} rows"
    rates = [f"to {at_ten:.3f} at ten times the rate"]
    rates += [f"to {last:.3f} at a tenth of it" for last in overfit.losses_at_a_tenth[-1:]]
    return ", ".join([falls, *rates])


def _fitted(line: str, width: int) -> list[str]:
    """A line of an error message: as it is, with the spaces that the library put in it, or wrapped where it is wide."""
    return [line] if columns(line) <= width else wrap(line, 0, 0, width)


def samples(evidence: Evidence) -> Iterator[str]:
    """A few rows of the training set in words, each with its label; labels of single tokens would hide the words."""
    split = next((split for split in evidence.splits if split.samples), None)
    for sample in split.samples if split else ():
        name = f" ({sample.label_name})" if sample.label_name else ""
        is_of_the_row = sample.label and not (sample.text and sample.label.startswith("["))
        yield f"{sample.label}{name}: {sample.text}" if is_of_the_row else sample.text


def failure_lines(evidence: Evidence, style: Style, find_source: FindSource = no_source) -> Iterator[str]:
    """The error of the first failed stage: the user's own line first, then where the library raised it."""
    stage = evidence.failed_stage
    failure = stage.failure if stage else None
    if stage is None or failure is None:
        return
    where = f"{line_of(failure.location, find_source)}: " if failure.location else ""
    yield style.paint(f"{where}the {stage.name} stage fails{_about(stage)}", bold=True)
    if failure.code:
        yield f"    {clip(printable(failure.code), style.width - 4)}"
    message = f"{failure.type}: {failure.message}".splitlines() or [failure.type]
    for line in message[:6]:
        for part in _fitted(printable(line), style.width - 2):
            yield f"  {style.paint(part, 'red')}"
    for frame in failure.frames:
        yield f"    {style.paint(clip(printable(frame), style.width - 4), dim=True)}"
