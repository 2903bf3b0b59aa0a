"""The lines of a file that the edits of a fix change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TypeAlias

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A line that goes (`-`) or comes (`+`), with its number in the file before or after."""

    sign: str
    number: int
    text: str


TextEdit: TypeAlias = tuple[tuple[int, int, int, int], str]
"""First line and column, last line and column behind it, all from 1, and the text that goes there."""


def changed_lines(text: str, edits: Sequence[TextEdit]) -> Iterator[ChangedLine]:
    """What edits change in the text of a file, in the order of a diff."""
    before, after = text.split("\n"), _edited(text, edits).split("\n")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    room = min(len(before), len(after)) - same
    ends = zip(reversed(before[same:]), reversed(after[same:]), strict=False)
    left = min(room, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends)))
    old, new = before[same : len(before) - left], after[same : len(after) - left]
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (ChangedLine("-", same + at + 1, old[at]) for at in range(start, end))
            yield from (ChangedLine("+", same + at + 1, new[at]) for at in range(first, last))


def _edited(text: str, edits: Sequence[TextEdit]) -> str:
    starts = [0]
    for each in text.split("\n"):
        starts.append(starts[-1] + len(each) + 1)
    for (line, column, end_line, end_column), new in sorted(edits, reverse=True):
        start, end = starts[line - 1] + column - 1, starts[end_line - 1] + end_column - 1
        text = text[:start] + new + text[end:]
    return text
