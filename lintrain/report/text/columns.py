"""Text in a terminal: how many columns it takes, where to wrap it, and which part of a long line to show."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
