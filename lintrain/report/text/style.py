"""How a report may look where it is going: its width, whether it has colours, and which signs can be written there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from lintrain.model.level import Level
from lintrain.report.text.columns import CUT
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.shown import trusted

if TYPE_CHECKING:
    from lintrain.model.verdict import Outcome

WIDEST = 120
"""Lines longer than this are hard to read, however wide the terminal is."""

NARROWEST = 40

ACCENT = "bright_blue"
"""Of what belongs to the drawing: plain blue is hard to read on black."""

LEVEL_COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan"}
OUTCOME_COLOURS = {"confirmed": "red", "refuted": "green", "inconclusive": "yellow"}


@dataclass(frozen=True, slots=True)
class Style:
    """The width in columns, whether there are colours, and whether there are signs outside ASCII."""

    width: int = WIDEST
    coloured: bool = False
    unicode: bool = True

    @property
    def bar(self) -> str:
        """The line between the line numbers and the code."""
        return "│" if self.unicode else "|"

    @property
    def dot(self) -> str:
        """The sign between a ruling and its reason."""
        return "·" if self.unicode else "-"

    def writable(self, text: str) -> str:
        """A text with an ASCII sign of the same width where a line was cut, for terminals that have no other signs."""
        return text if self.unicode else text.replace(CUT, "~")

    def paint(self, text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """A text in a colour, or as it is where there are none."""
        if not self.coloured or not text:
            return text
        from click import style

        before, after = trusted(style("\0", fg=colour, bold=bold or None, dim=dim or None)).split("\0")
        return f"{before}{text}{after}"

    def level(self, level: Level, text: str) -> str:
        """A text in the colour of a level."""
        return self.paint(text, LEVEL_COLOURS[level], bold=True)

    def outcome(self, outcome: Outcome) -> str:
        """A ruling in its colour."""
        return self.paint(outcome.value, OUTCOME_COLOURS[outcome.value], bold=True)

    def code(self, text: str) -> str:
        """A message with the code between its backticks set off."""
        if not self.coloured:
            return text
        parts = text.split("`")
        whole = len(parts) - 1 + len(parts) % 2
        return "`".join(self.paint(part, bold=True) if i % 2 and i < whole else part for i, part in enumerate(parts))


def style_of(stream: TextIO) -> Style:
    """The look for a stream: `NO_COLOR` and `FORCE_COLOR` have their usual say, `COLUMNS` sets the width."""
    unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")
    return Style(width_of(stream), has_colours(stream), unicode)


def has_colours(stream: TextIO) -> bool:
    """Whether colours belong on a stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """The columns to use on a stream."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return max(NARROWEST, min(int(columns), WIDEST))
    try:
        return max(NARROWEST, min(os.get_terminal_size(stream.fileno()).columns or WIDEST, WIDEST))
    except (OSError, ValueError):
        return WIDEST
