"""Code as a terminal shows it: how many columns it takes, and the part of a long line that is worth showing."""

from __future__ import annotations

import re

TAB = 4
CUT = "…"

_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)} | {0x7F: 0x2421}
_CONTROLS = dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)


def printable(text: str) -> str:
    """A line with tabs as spaces, and a sign in the stead of what would steer the terminal or turn the text around."""
    if text.isascii() and text.isprintable():
        return text
    return text.expandtabs(TAB).translate(_PICTURES | _CONTROLS)


def columns(text: str) -> int:
    """The columns that a printable text takes: East Asian characters and most emoji take two."""
    if text.isascii():
        return len(text)
    import unicodedata

    width = 0
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width


def clip(text: str, limit: int) -> str:
    """As much of the beginning as fits, with a sign that there is more."""
    if columns(text) <= limit:
        return text
    kept = text[: max(limit - 1, 0)]
    while kept and columns(kept) > limit - 1:
        kept = kept[:-1]
    return kept + CUT


def window(text: str, start: int, end: int, limit: int) -> tuple[str, int]:
    """The part of a line around the characters from `start` to `end`, and by how many characters it moved left."""
    if columns(text) <= limit or columns(text[:end]) < limit:
        return clip(text, limit), 0
    wanted = max(limit // 3, limit - columns(text[start:end]) - 2)
    first = start
    while first > 0 and columns(text[first - 1 : start]) < wanted:
        first -= 1
    return (clip(CUT + text[first:], limit), first - 1) if first else (clip(text, limit), 0)


def wrap(text: str, first: int, rest: int, width: int) -> list[str]:
    """The lines of a text, broken between words: the first begins at column `first`, the others at `rest`.

    Code between backticks stays on one line where it fits on one.
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
