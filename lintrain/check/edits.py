"""What a fix changes in its file, as ranges of text: for reports that other programs show or apply."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING

from lintrain.model.fixes import Fix
from lintrain.model.location import Location
from lintrain.source.source import MIXED, Source
from lintrain.source.writing import CellsBrokenError, editable_text, edited_text
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.fix import Tree


@dataclass(frozen=True, slots=True)
class TextEdit:
    """New text for a range of the file itself (of a notebook: of its JSON); an empty range is an insertion."""

    location: Location
    text: str


class TextEdits:
    """The edits that write fixes; the tree of a file is cached until another file is requested."""

    def __init__(self) -> None:
        self._latest: tuple[Source, Tree, list[str]] | None = None

    def __call__(self, source: Source, fix: Fix) -> tuple[TextEdit, ...]:
        """The edits of one fix, in the order of the file; none if it cannot be written."""
        from lintrain.fix import FixError

        try:
            found = self._differences(source, fix)
        except (FixError, CellsBrokenError):
            return ()
        newline = "\n" if source.writing.newline == MIXED else source.writing.newline
        return tuple(TextEdit(edit.location, edit.text.replace("\n", newline)) for edit in found)

    def _differences(self, source: Source, fix: Fix) -> Sequence[TextEdit]:
        """What a fix changes: of a script in the statement that it touches, else in the whole text."""
        from lintrain.fix import apply_to, changed_statement

        tree, lines = self._read(source)
        changed = changed_statement(tree, fix) if source.notebook is None else None
        if changed is not None:
            before = _lines(changed.before.removesuffix("\n"))
            start = changed.line - 1
            if "".join(lines[start : start + len(before)]).removesuffix("\n") == "".join(before):
                return list(_edits(source.path, _lines(changed.before), _lines(changed.after), start))
        after = edited_text(source, apply_to(tree, [fix]))
        return list(_edits(source.path, lines, _lines(after)))

    def _read(self, source: Source) -> tuple[Tree, list[str]]:
        from lintrain.fix import read_tree

        if self._latest is None or self._latest[0] is not source:
            self._latest = source, read_tree(editable_text(source)), _lines(source.file_text)
        return self._latest[1:]


def _lines(text: str) -> list[str]:
    return re.split(r"(?<=\n)", text)


def _edits(path: str, before: Sequence[str], after: Sequence[str], above: int = 0) -> Iterator[TextEdit]:
    """The differences of two texts that start below so many lines, each as short as can be."""
    same = _shared(before, after)
    tail = _shared(before[same:][::-1], after[same:][::-1])
    old, new = before[same : len(before) - tail], after[same : len(after) - tail]
    for kind, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _narrowed(path, above + same + start + 1, "".join(old[start:end]), "".join(new[first:last]))


def _narrowed(path: str, line: int, old: str, new: str) -> TextEdit:
    """One edit of a text that starts at a line, without the characters that stay."""
    start = _shared(old, new)
    tail = _shared(old[start:][::-1], new[start:][::-1])
    return TextEdit(
        Location(path, *_point(line, old[:start]), *_point(line, old[: len(old) - tail])), new[start : len(new) - tail]
    )


def _point(line: int, text: str) -> tuple[int, int]:
    """Line and column after a text that starts at a line."""
    return line + text.count("\n"), len(text) - text.rfind("\n")


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many elements two sequences start with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
