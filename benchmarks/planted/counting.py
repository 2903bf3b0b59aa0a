"""What lintrain reports for a file as it is and with a mistake in it, and what is new."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.accuracy.checking import rules
from benchmarks.accuracy.code import Edit
from benchmarks.planted.clones import Clone
from benchmarks.planted.planting import Planted
from lintrain.builtin import BUILTINS
from lintrain.check.check_run import CheckRun
from lintrain.check.selection import CheckRequest, Choice, Selection, choose, known_names
from lintrain.knowledge.versions import VersionFinder
from lintrain.model.finding import Finding

NEAR = 12
"""Lines from a mark within which a finding is near, unless it is in the same function."""

Key = tuple[str, str, int]
"""A finding: rule, file and line."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a planted mistake changed: findings that name it, other new ones, and those that are no longer there.

    `is_exhausted` if the file took more than its budget, so that rules were silent.
    """

    planted: Planted
    named: tuple[Finding, ...] = ()
    others: tuple[Finding, ...] = ()
    vanished: int = 0
    is_exhausted: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether a reader would learn of the mistake."""
        return bool(self.named)


@dataclass(eq=False)
class Checker:
    """Checks the files of one clone, each group of unchanged files once."""

    clone: Clone
    _before: dict[tuple[str, ...], tuple[Finding, ...]] = field(
        default_factory=dict[tuple[str, ...], tuple[Finding, ...]]
    )

    def count(self, planted: Planted) -> Counted:
        """What the mistake changes: in a check of the file alone, else also through a script that imports it."""
        alone = self._count(planted, (str(planted.path),))
        readers = () if alone.is_reported else tuple(map(str, self.clone.readers_of(planted.path)))
        return self._count(planted, (str(planted.path), *readers)) if readers else alone

    def _count(self, planted: Planted, files: tuple[str, ...]) -> Counted:
        if files not in self._before:
            self._before[files] = self._findings(files, {})[0]
        raw = planted.form.written(planted.text)
        after, is_exhausted = self._findings(files, {str(planted.path): raw})
        before = Counter(_moved(finding, planted) for finding in self._before[files])
        new: list[Finding] = []
        for finding in after:
            key = _key(finding)
            if before[key]:
                before[key] -= 1
            else:
                new.append(finding)
        named = [finding for finding in new if finding.rule in planted.operator.rules and is_near(finding, planted)]
        others = [finding for finding in new if finding not in named]
        return Counted(planted, tuple(named), tuple(others), sum(before.values()), is_exhausted)

    def _findings(self, files: Sequence[str], given: Mapping[str, bytes]) -> tuple[tuple[Finding, ...], bool]:
        request = CheckRequest(files, rules(), _selection(), VersionFinder({}, self.clone.path).find, given)
        result = CheckRun(request).check()
        found = tuple(
            reported.finding
            for reported in result.reported
            if reported.finding.rule not in BUILTINS or reported.finding.rule == "syntax-error"
        )
        return found, any(file.is_exhausted for file in result.files)


@cache
def _selection() -> Selection:
    """Every rule that reads text, and no undefined names, for which ruff would be started."""
    names = [rule.name for rule in rules()]
    return choose(known_names(rules()), Choice("benchmark", "/", names), Choice("benchmark", "/"))


def _key(finding: Finding) -> Key:
    return finding.rule, finding.location.path, finding.location.line


def _moved(finding: Finding, planted: Planted) -> Key:
    """A finding of the unchanged file by the line that its code has after the edits."""
    rule, path, line = _key(finding)
    return (rule, path, moved_line(line, planted)) if path == planted.form.path else (rule, path, line)


def moved_line(line: int, planted: Planted) -> int:
    """The number of a line after the edits."""
    text = planted.form.text
    return line + sum(_growth(text, edit) for edit in planted.edits if text.count("\n", 0, edit.end) + 1 <= line)


def _growth(text: str, edit: Edit) -> int:
    return edit.text.count("\n") - text.count("\n", edit.start, edit.end)


def is_near(finding: Finding, planted: Planted) -> bool:
    """Whether a finding, or what it relates to, is near a mark: in the same function, or some lines away."""
    locations = (finding.location, *(related.location for related in finding.related))
    lines = [location.line for location in locations if location.path == planted.form.path]
    ranges = list(_ranges(planted))
    return any(first <= line <= last for line in lines for first, last in ranges)


def _ranges(planted: Planted) -> Iterator[tuple[int, int]]:
    """The lines that are near each mark."""
    functions = [
        node for node in ast.walk(ast.parse(planted.text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for mark in planted.lines:
        yield mark - NEAR, mark + NEAR
        for function in functions:
            if function.lineno <= mark <= (function.end_lineno or function.lineno):
                yield function.lineno, function.end_lineno or function.lineno


def path_of(finding: Finding, clone: Clone) -> str:
    """A finding's file inside its clone."""
    path = Path(finding.location.path)
    return str(path.relative_to(clone.path)) if path.is_relative_to(clone.path) else str(path)
