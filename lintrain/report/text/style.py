"""The style of a report: its width, its colours, and whether it may use Unicode symbols.

Text in a terminal: how many columns it takes, where to wrap it, and which part of a long line to show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from lintrain.model.level import Level
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import trusted

if TYPE_CHECKING:
    from lintrain.model.verdict import Outcome


WIDEST = 120
"""Lines longer than this are hard to read, however wide the terminal is."""

NARROWEST = 40

ACCENT = "bright_blue"
"""The colour of frames: plain blue is hard to read on black."""

LEVEL_COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan"}
OUTCOME_COLOURS = {"confirmed": "red", "refuted": "green", "inconclusive": "yellow"}


@dataclass(frozen=True, slots=True)
class Style:
    """The width in columns, and whether colours and symbols outside of ASCII are available."""

    width: int = WIDEST
    coloured: bool = False
    unicode: bool = True

    @property
    def bar(self) -> str:
        """The line between the line numbers and the code."""
        return "│" if self.unicode else "|"

    @property
    def dot(self) -> str:
        """The separator between an outcome and its reason."""
        return "·" if self.unicode else "-"

    def writable(self, text: str) -> str:
        """A text with an ASCII symbol for an ellipsis, for ASCII terminals."""
        return text if self.unicode else text.replace(CUT, "~")

    def paint(self, text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        """A text in a colour, or unchanged without colours."""
        if not self.coloured or not text:
            return text
        from click import style

        before, after = trusted(style("\0", fg=colour, bold=bold or None, dim=dim or None)).split("\0")
        return f"{before}{text}{after}"

    def level(self, level: Level, text: str) -> str:
        """A text in the colour of a level."""
        return self.paint(text, LEVEL_COLOURS[level], bold=True)

    def outcome(self, outcome: Outcome) -> str:
        """An outcome in its colour."""
        return self.paint(outcome.value, OUTCOME_COLOURS[outcome.value], bold=True)

    def code(self, text: str) -> str:
        """A message with the code between backticks in bold."""
        if not self.coloured:
            return text
        parts = text.split("`")
        whole = len(parts) - 1 + len(parts) % 2
        return "`".join(self.paint(part, bold=True) if i % 2 and i < whole else part for i, part in enumerate(parts))


def style_of(stream: TextIO) -> Style:
    """The style for a stream; respects `NO_COLOR`, `FORCE_COLOR` and `COLUMNS`."""
    unicode = (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")
    return Style(width_of(stream), has_colours(stream), unicode)


_CHOSEN: list[bool] = []


def choose_colours(choice: str | None) -> None:
    """Use colours `always` or `never` from now on; otherwise the stream and the environment decide."""
    _CHOSEN[:] = {"always": [True], "never": [False]}.get(choice or "", [])


def has_colours(stream: TextIO) -> bool:
    """Whether to use colours on a stream."""
    if _CHOSEN:
        return _CHOSEN[0]
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


TAB = 4
CUT = "…"

_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)} | {0x7F: 0x2421}
_CONTROLS = dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)


def printable(text: str) -> str:
    """A line with tabs as spaces, and visible symbols for control characters and bidirectional marks."""
    if text.isascii() and text.isprintable():
        return text
    return text.expandtabs(TAB).translate(_PICTURES | _CONTROLS)


def columns(text: str) -> int:
    """The columns of a printable text: East Asian characters and most emoji take two."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fitting(characters: Sequence[str], room: int) -> int:
    """How many of the first characters fit."""
    for number, character in enumerate(characters):
        room -= 1 if character.isascii() else _width(character)
        if room < 0:
            return number
    return len(characters)


def clip(text: str, limit: int) -> str:
    """The beginning of a text that fits, with an ellipsis if it is cut."""
    fits = _fitting(text, limit)
    return text if fits == len(text) else text[: _fitting(text[:fits], limit - 1)] + CUT


def window(text: str, start: int, end: int, limit: int) -> tuple[str, int]:
    """The part of a line around the characters `start` to `end`, and by how many characters it moved left."""
    fits = _fitting(text, limit - 1)
    if fits >= min(end, len(text)):
        return clip(text, limit), 0
    wanted = max(limit // 3, limit - columns(text[start : min(end, start + limit)]) - 2)
    before = text[max(start - limit, 0) : start]
    first = start - _fitting(before[::-1], wanted - 1)
    return (clip(CUT + text[first : first + 2 * limit], limit), first - 1) if first else (clip(text, limit), 0)


def wrap(text: str, first: int, rest: int, width: int) -> list[str]:
    """The lines of a wrapped text: the first begins at column `first`, the others at `rest`.

    Code between backticks is not broken if it fits on one line.
    """
    lines: list[str] = []
    current, room = "", width - first
    for word in _words(text, width - rest):
        longer = f"{current} {word}" if current else word
        if current and columns(longer) > room:
            lines.append(current)
            current, room = word, width - rest
        else:
            current = longer
    return [*lines, current]


def _words(text: str, room: int) -> list[str]:
    words: list[str] = re.findall(r"[^\s`]*`[^`]*`[^\s`]*|\S+", text)
    return [part for word in words for part in ([word] if columns(word) <= room else word.split())] or [""]
