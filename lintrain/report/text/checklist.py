"""The live checklist of a probe: its stages ticked off as they come, with progress, on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from lintrain.report.text.stages import sign
from lintrain.report.text.style import Style, style_of
from lintrain.text.shown import for_terminal

if TYPE_CHECKING:
    from rich.text import Text

Event = dict[str, Any]  # Any: events hold whatever JSON holds


class Checklist(Protocol):
    """Something that is told every event of a probe and shows it."""

    def __enter__(self) -> Checklist: ...

    def __exit__(self, *raised: object) -> None: ...

    def listen(self, event: Event) -> None:
        """Take in one event."""
        ...


def open_checklist(*, quiet: bool, stream: TextIO | None = None) -> Checklist:
    """A live one on a terminal, plain lines in a pipe, nothing when quiet."""
    if quiet:
        return Silence()
    out = sys.stderr if stream is None else stream
    style = style_of(out)
    return LiveLines(style) if out.isatty() and style.coloured else PlainLines(style, out)


class Silence:
    """Shows nothing."""

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *raised: object) -> None:
        return

    def listen(self, event: Event) -> None:
        """Nothing."""


class PlainLines(Silence):
    """One line as each stage settles: for pipes and logs."""

    def __init__(self, style: Style, stream: TextIO) -> None:
        self._style, self._stream = style, stream

    def listen(self, event: Event) -> None:
        """Write a line where there is one."""
        line = _settled(event, self._style)
        if line:
            self._stream.write(for_terminal(line) + "\n")
            self._stream.flush()


def _settled(event: Event, style: Style) -> str:
    match event["event"]:
        case "started":
            return "probe: running the script up to its training call"
        case "again":
            return f"probe: once more, with all of the data: {event['reason']}"
        case "stage":
            stage = event["stage"]
            return f"probe: {sign(stage['status'], style)} {stage['name']} ({stage['seconds']:.2f} s)"
        case _:
            return ""


class LiveLines(Silence):
    """A list that grows in place and is gone in the end, when the report stands in its stead."""

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
        """Move on with the list."""
        match event["event"]:
            case "stage":
                self._lines.append(_settled(event, self._style).removeprefix("probe: "))
                self._running = ""
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
