"""The stages of a probe for a terminal: what each measured, and the error of the one that failed.

The progress of a probe on stderr: its stages, each ticked off when it ends.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from lintrain.evidence.run import Evidence, Stage
from lintrain.report.text.causes import remark_lines
from lintrain.report.text.rows import rows_lines
from lintrain.report.text.stage_numbers import aligned, extra_lines, lines_below, no_source, numbers
from lintrain.report.text.style import Style, clip, columns, printable, style_of, wrap
from lintrain.source.source import FindSource, line_of
from lintrain.text import for_terminal, show_size

if TYPE_CHECKING:
    from rich.text import Text


INDENT = 27
"""The column of the measurements."""
STATUS_SIGNS = {"passed": ("✓", "+"), "failed": ("✗", "x"), "not reached": ("·", "-")}
STATUS_COLOURS = {"passed": "green", "failed": "red", "not reached": "yellow"}


def run_lines(
    evidence: Evidence, style: Style, find_source: FindSource = no_source, known: Collection[str] = ()
) -> Iterator[str]:
    """A heading, rows of the batches, the stages, and the notes that are not known from other runs."""
    yield from _wrapped("", _heading(evidence, find_source), 2, style)
    yield from _body(evidence, style, find_source, known)


def _body(evidence: Evidence, style: Style, find_source: FindSource, known: Collection[str]) -> Iterator[str]:
    yield from rows_lines(evidence, style)
    for stage in evidence.stages:
        if stage.status != "not reached":
            yield from _stage(evidence, stage, style, find_source)
    yield from _not_reached(evidence, style)
    arrow = "→" if style.unicode else "->"
    for stand_in in evidence.stand_ins:
        head = f"    {style.paint('stand-in', dim=True)}  "
        yield from _wrapped(head, f"{stand_in.name} {arrow} {stand_in.by}", 14, style)
    yield from note_lines((note for note in (*evidence.shortcuts, *evidence.notes) if note not in known), style)


def attempt_lines(
    attempts: Sequence[Evidence], style: Style, find_source: FindSource = no_source, known: Collection[str] = ()
) -> Iterator[str]:
    """The runs of a probe that went on after failing stages: what failed, the fixes tried, and the stages of the last.

    A stage that fails in two runs in a row with the same error is shown once.
    """
    last = attempts[-1]
    yield from _wrapped("", _heading(last, find_source), 2, style)
    for run, following in pairwise(attempts):
        for stage in run.stages:
            if stage.status == "failed" and not _fails_again(stage, following):
                yield from _stage(run, stage, style, find_source)
        for repair in following.repairs[len(run.repairs) :]:
            text = f"{line_of(repair.location, find_source)}: {repair.text} ({repair.rule})"
            yield from _wrapped(f"    {style.paint('tried', dim=True)}   ", text, 12, style)
    yield from _body(last, style, find_source, known)
    yield from note_lines(["the script's file is unchanged: fixes are tried in memory"], style)


def _fails_again(stage: Stage, following: Evidence) -> bool:
    later = following.stage(stage.name)
    return later is not None and later.failure is not None and _error(later) == _error(stage)


def note_lines(notes: Iterable[str], style: Style) -> Iterator[str]:
    """Notes on a run, or on the whole probe."""
    for note in notes:
        yield from _wrapped(f"    {style.paint('note', dim=True)}    ", note, 12, style)


OF_FRAMEWORK = {"keras": ("keras", "tf_keras", "tensorflow"), "lightning": ("lightning",)}
"""The packages whose versions are named first."""


def _heading(evidence: Evidence, find_source: FindSource) -> str:
    named = OF_FRAMEWORK.get(evidence.framework, ())
    named = (*named, "transformers") if _uses_transformers(evidence, find_source) else named
    shown = [name for name in (*named, "torch") if name in evidence.versions]
    versions = ", ".join(f"{name} {evidence.versions[name]}" for name in shown)
    what = f"{evidence.model.name} under {evidence.trainer}, " if evidence.model else ""
    call = f"training call {evidence.call_number}: " if evidence.call_number > 1 else ""
    return f"{evidence.script}: {call}{what}on {evidence.device}{f' ({versions})' if versions else ''}"


def _uses_transformers(evidence: Evidence, find_source: FindSource) -> bool:
    """Whether the script does: other libraries import it as well, to find out whether it is there."""
    if evidence.framework == "transformers" or evidence.tokenizer is not None:
        return True
    source = find_source(evidence.script)
    return source is None or "transformers" in source.text


def sign(status: str, style: Style) -> str:
    """The sign of a stage's status, in its colour."""
    return style.paint(STATUS_SIGNS[status][0 if style.unicode else 1], STATUS_COLOURS[status], bold=True)


def _stage(evidence: Evidence, stage: Stage, style: Style, find_source: FindSource) -> Iterator[str]:
    seconds = f"{stage.seconds:6.2f} s" if stage.seconds >= 0.005 else " " * 8
    head = f"  {sign(stage.status, style)} {stage.name:<12} {seconds}  "
    message = _error(stage) or stage.reason
    if not message and (lines := extra_lines(evidence, stage.name, style)):
        first, *rest = aligned(lines, INDENT, style)
        yield f"{head}{first}".rstrip()
    else:
        yield from _wrapped(head, message or numbers(evidence, stage.name, find_source), INDENT, style)
        lines = [] if message else lines_below(evidence, stage.name, style)
        rest = list(aligned(lines, INDENT, style)) if lines else []
    for line in rest:
        yield f"{' ' * INDENT}{line}".rstrip()


def _not_reached(evidence: Evidence, style: Style) -> Iterator[str]:
    """One line per reason for which stages were not reached."""
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


def _fitted(line: str, width: int) -> list[str]:
    """A line of an error message, unchanged if it fits, otherwise wrapped."""
    return [line] if columns(line) <= width else wrap(line, 0, 0, width)


def failure_lines(
    evidence: Evidence, style: Style, find_source: FindSource = no_source, *, is_brief: bool = False
) -> Iterator[str]:
    """The error of the first failed stage: the user's line first, then the frames in the library.

    A brief one has only the cause: it is that of a finding, which is shown with its fix.
    """
    stage = evidence.failed_stage
    failure = stage.failure if stage else None
    if stage is None or failure is None:
        return
    where = f"{line_of(failure.location, find_source)}: " if failure.location else ""
    yield style.paint(f"{where}the {stage.name} stage failed{_about(stage)}", bold=True)
    if failure.code:
        yield f"    {clip(printable(failure.code), style.width - 4)}"
    message = f"{failure.type}: {failure.message}".splitlines() or [failure.type]
    for line in message[:6]:
        for part in _fitted(printable(line), style.width - 2):
            yield f"  {style.paint(part, 'red')}"
    for frame in () if is_brief else failure.frames:
        yield f"    {style.paint(clip(printable(frame), style.width - 4), dim=True)}"
    yield from remark_lines(failure, style, is_brief=is_brief)


def device_lines(runs: Sequence[Evidence]) -> Iterator[str]:
    """The memory of each GPU pass, and how its first loss and gradient compare with the CPU."""
    first = next((run for run in runs if run.accelerator is None), None)
    for run in runs:
        device = run.accelerator
        if device is None:
            continue
        yield f"{run.device}, {device.name}: {_gpu_memory(run, first)}"
        if first is not None and (compared := "; ".join(_compared(first, run))):
            yield f"{run.device} vs. CPU: {compared}"


def _gpu_memory(run: Evidence, first: Evidence | None) -> str:
    device = run.accelerator
    if device is None:
        return ""
    allocated, memory = show_size(device.allocated), show_size(device.memory)
    held = f"{allocated} of {memory} allocated at the peak, {show_size(device.reserved)} reserved"
    projected = first.memory.peak if first is not None and first.memory is not None else 0
    if not projected or not device.allocated:
        return held
    return f"{held}; projected {show_size(projected)} ({projected / device.allocated - 1:+.0%})"


def _compared(cpu: Evidence, gpu: Evidence) -> Iterator[str]:
    if cpu.forward and gpu.forward and cpu.forward.losses and gpu.forward.losses:
        yield _gpu_and_cpu("first loss", gpu.forward.losses[0], cpu.forward.losses[0])
    if cpu.backward and gpu.backward and cpu.backward.norms and gpu.backward.norms:
        yield _gpu_and_cpu("first gradient norm", gpu.backward.norms[0], cpu.backward.norms[0])


def _gpu_and_cpu(name: str, gpu: float, cpu: float) -> str:
    apart = abs(gpu - cpu) / abs(cpu) if cpu else math.nan
    # Of NaN and infinity there is no share.
    difference = f" ({apart:.1%} difference)" if math.isfinite(apart) else ""
    return f"{name} {gpu:.4g} vs. {cpu:.4g}{difference}"


Event = dict[str, Any]  # Any: events hold whatever JSON holds


class Checklist(Protocol):
    """Shows the events of a probe."""

    def __enter__(self) -> Checklist: ...

    def __exit__(self, *raised: object) -> None: ...

    def listen(self, event: Event) -> None:
        """Show an event."""
        ...


def open_checklist(*, quiet: bool, stream: TextIO | None = None) -> Checklist:
    """A live list on a terminal, plain lines in a pipe, nothing if quiet."""
    if quiet:
        return NoChecklist()
    out = sys.stderr if stream is None else stream
    style = style_of(out)
    return LiveLines(style) if out.isatty() and style.coloured else PlainLines(style, out)


class NoChecklist:
    """Shows nothing."""

    def __enter__(self) -> NoChecklist:
        return self

    def __exit__(self, *raised: object) -> None:
        return

    def listen(self, event: Event) -> None:
        """Show nothing."""


class PlainLines(NoChecklist):
    """One line when a stage ends, for pipes and logs."""

    def __init__(self, style: Style, stream: TextIO) -> None:
        self._style, self._stream = style, stream

    def listen(self, event: Event) -> None:
        """Write the line of an event, if it has one."""
        line = _line_of(event, self._style)
        if line:
            self._stream.write(for_terminal(line) + "\n")
            self._stream.flush()


def _line_of(event: Event, style: Style) -> str:
    match event["event"]:
        case "started":
            return "probe: running the script up to its training call"
        case "again":
            return f"probe: running again with all data: {event['reason']}"
        case "going-on" if event["repairs"]:
            return f"probe: going on with {'; '.join(event['repairs'])}"
        case "stand-in":
            return f"probe: going on with {event['text']} (stand-in)"
        case "stage":
            stage = event["stage"]
            return f"probe: {sign(stage['status'], style)} {stage['name']} ({stage['seconds']:.2f} s)"
        case _:
            return ""


class LiveLines(NoChecklist):
    """A list that is updated in place and erased at the end, when the report replaces it."""

    def __init__(self, style: Style) -> None:
        from rich.console import Console
        from rich.live import Live

        self._style = style
        self._lines: list[str] = []
        self._running, self._since, self._done = "script", time.monotonic(), ""
        console = Console(stderr=True, highlight=False)
        self._live = Live(get_renderable=self._text, console=console, transient=True, refresh_per_second=8)

    def __enter__(self) -> LiveLines:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def listen(self, event: Event) -> None:
        """Update the list."""
        match event["event"]:
            case "stage":
                self._lines.append(_line_of(event, self._style).removeprefix("probe: "))
                self._running = ""
            case "going-on" | "stand-in" if line := _line_of(event, self._style):
                self._lines.append(line.removeprefix("probe: "))
                self._running, self._since, self._done = "script", time.monotonic(), ""
            case "stage-started":
                self._running, self._since, self._done = event["stage"], time.monotonic(), ""
            case "progress":
                self._done = f" {event['done']}/{event['of']}"
            case "again":
                self._lines = [event["reason"]]
                self._running, self._since, self._done = "script", time.monotonic(), ""
            case _:
                pass

    def _text(self) -> Text:
        from rich.text import Text

        lines = list(self._lines)
        if self._running:
            spinner = "⠋⠙⠹⠸⠼⠴⠦⠧"[int(time.monotonic() * 8) % 8] if self._style.unicode else "."
            lines.append(f"{spinner} {self._running}{self._done} ({time.monotonic() - self._since:.0f} s)")
        return Text.from_ansi(for_terminal("\n".join(lines)))
