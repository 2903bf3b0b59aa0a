"""Fixes written into files, round after round until there is nothing left to write.

What a fix changes in its file, as ranges of text: for reports that other programs show or apply.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from typing import TYPE_CHECKING

from lintrain.check.check_run import CheckRun
from lintrain.check.one_file import SECONDS
from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.check.selection import CheckRequest
from lintrain.model.fixes import Fix
from lintrain.model.location import Location
from lintrain.source.configuration import Configuration
from lintrain.source.reading import load_bytes
from lintrain.source.source import MIXED, Source
from lintrain.source.writing import CellsBrokenError, editable_text, edited_text, file_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.fix import Tree


MOST_ROUNDS = 10
"""A fix may cause another finding; more rounds than this mean that two fixes undo each other."""


@dataclass(frozen=True, slots=True)
class FixedFiles:
    """What is left after all fixes, the new contents of the changed files, and how many findings are fixed.

    `fixed` counts them by file and rule. `notes` name the fixes that could not be written.
    """

    outcome: CheckResult
    before: Mapping[str, Source]
    contents: Mapping[str, bytes]
    fixed: Counter[tuple[str, str]]
    notes: tuple[str, ...]


def fix_files(request: CheckRequest, outcome: CheckResult, *, unsafe: bool) -> FixedFiles:
    """Write the fixes of a run, in memory; unsafe ones only on request."""
    contents: dict[str, bytes] = {}
    notes: dict[str, None] = {}
    latest = outcome
    began = time.monotonic()
    for _ in range(MOST_ROUNDS):
        changed = _one_round(latest, {**request.given, **contents}, unsafe, notes)
        if not changed:
            break
        if time.monotonic() - began > SECONDS * len(changed):
            notes[f"further fixes were left out: the {SECONDS:g} seconds of each file were over"] = None
            break
        contents.update(changed)
        latest = CheckRun(replace(request, given={**request.given, **contents})).check()
    gone = _claims(outcome.reported) - _claims(latest.reported)
    return FixedFiles(latest, outcome.sources, contents, gone, tuple(notes))


def _one_round(
    outcome: CheckResult, given: Mapping[str, bytes], unsafe: bool, notes: dict[str, None]
) -> dict[str, bytes]:
    """The new contents of every file that a fix changes; a file that was not judged whole keeps its text."""
    changed: dict[str, bytes] = {}
    for file in outcome.files:
        fixes = [(one, one.fix) for one in file.reported if one.fix and (one.fix.safe or unsafe)]
        if file.source is None or not fixes:
            continue
        if file.unjudged:
            notes[f"{file.path}: no fix was written, because not all rules have judged it"] = None
            continue
        original = given[file.path] if file.path in given else load_bytes(file.path)
        fixed = _fixed(file, file.source, fixes, original, notes)
        if fixed != original:
            changed[file.path] = fixed
    return changed


def _fixed(
    file: FileOutcome, source: Source, fixes: Sequence[tuple[Reported, Fix]], original: bytes, notes: dict[str, None]
) -> bytes:
    """The file with its fixes; where they cannot be written together, with those that can be written alone."""
    text = editable_text(source)
    try:
        return _written(source, text, [fix for _, fix in fixes], original)
    except UnwritableError as error:
        if len(fixes) == 1:
            notes[f"{fixes[0][0].finding.location}: a fix could not be written ({fixes[0][1].title}): {error}"] = None
            return original
    alone = [(one, fix) for one, fix in fixes if _fixed(file, source, [(one, fix)], original, notes) != original]
    try:
        return _written(source, text, [fix for _, fix in alone], original)
    except UnwritableError:
        return _fixed(file, source, alone[:1], original, notes) if alone else original


class UnwritableError(Exception):
    """Fixes that do not fit the text, or would break it."""


def _written(source: Source, text: str, fixes: Sequence[Fix], original: bytes) -> bytes:
    from lintrain.fix import FixError, apply

    try:
        return file_bytes(source, apply(text, fixes), original)
    except (FixError, CellsBrokenError) as error:
        raise UnwritableError(str(error)) from error


def _claims(reported: Iterable[Reported]) -> Counter[tuple[str, str]]:
    return Counter((one.finding.location.path, one.finding.rule) for one in reported)


@dataclass(frozen=True, slots=True)
class TextEdit:
    """New text for a range of the file itself (of a notebook: of its JSON); an empty range is an insertion."""

    location: Location
    text: str


@cache
def can_write() -> bool:
    """Whether fixes can be written: the zipapp and the extension for VS Code do not bring libcst, which is compiled."""
    return find_spec("libcst") is not None


class TextEdits:
    """The edits that write fixes; the tree of a file is cached until another file is requested."""

    def __init__(self) -> None:
        self._latest: tuple[Source, Tree, list[str]] | None = None

    def __call__(self, source: Source, fix: Fix) -> tuple[TextEdit, ...]:
        """The edits of one fix, in the order of the file; none if it cannot be written."""
        if not can_write():
            return ()
        from lintrain.fix import FixError

        try:
            found = self._differences(source, fix)
        except (FixError, CellsBrokenError):
            return ()
        newline = "\n" if source.writing.newline == MIXED else source.writing.newline
        return tuple(TextEdit(edit.location, edit.text.replace("\n", newline)) for edit in found)

    def _differences(self, source: Source, fix: Fix) -> Sequence[TextEdit]:
        """What a fix changes: of a script in the statement that it touches, else in the whole text."""
        from lintrain.fix import apply, apply_to, changed_statement

        if isinstance(source, Configuration):
            after = apply(editable_text(source), [fix])
            return list(_edits(source.path, _lines(source.file_text), _lines(after)))
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
