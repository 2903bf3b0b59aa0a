"""Comments `# lintrain: ignore[rule] -- reason` for findings, each written where it applies and changes no code.

Lines that go on in the next one without a bracket: no comment can end them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import zip_longest
from typing import cast

from lintrain.builtin import UNCONDITIONAL, UNUSED_SUPPRESSION
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest
from lintrain.model.finding import Finding
from lintrain.model.location import Location
from lintrain.source.configuration import Configuration
from lintrain.source.nodes import walk
from lintrain.source.parsing import parse
from lintrain.source.reading import load_bytes
from lintrain.source.source import MARK, Source
from lintrain.source.suppression import Suppression
from lintrain.source.writing import CellsBrokenError, editable_text, file_bytes
from lintrain.startup.lazy_dataclass import dataclass

BEYOND_COMMENTS = {UNUSED_SUPPRESSION.name, *UNCONDITIONAL}
"""Findings that a comment would not silence, or should not."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The new contents of the files with comments, how many findings those silence, and what had no room."""

    contents: Mapping[str, bytes]
    silenced: int
    notes: tuple[str, ...]


def ignore_findings(request: CheckRequest, outcome: CheckResult, reason: str) -> Ignored:
    """Write a comment, in memory, for every finding of a run that is in a requested file."""
    contents: dict[str, bytes] = {}
    notes: list[str] = []
    silenced = 0
    asked_for = set(request.files)
    for file in outcome.files:
        findings = [one.finding for one in file.reported if one.finding.rule not in BEYOND_COMMENTS]
        if file.source is None or not findings or file.path not in asked_for:
            continue
        comments = Comments(file.source, reason)
        homeless = [finding for finding in findings if not comments.silence(finding)]
        notes.extend(f"{finding.location}: no line can hold a comment for `{finding.rule}`" for finding in homeless)
        original = request.given[file.path] if file.path in request.given else load_bytes(file.path)
        try:
            written = comments.written(original)
        except CellsBrokenError as error:
            notes.append(f"{file.path}: no comment could be written: {error}")
            continue
        if written != original:
            contents[file.path] = written
            silenced += len(findings) - len(homeless)
    return Ignored(contents, silenced, tuple(notes))


@dataclass(eq=False)
class Comments:
    """The comments that go into one file: at the end of lines, above lines, into comments that are there already."""

    source: Source
    reason: str
    at_end: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    above: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    added: dict[Suppression, list[str]] = field(default_factory=dict[Suppression, list[str]])
    open: Collection[int] = field(init=False)
    """Lines that go on in the next one, so that no comment can end them and none can follow."""

    def __post_init__(self) -> None:
        if not isinstance(self.source, Configuration):
            self.open = open_lines(self.source.text)
        elif self.source.path.endswith(".json"):
            self.open = range(len(self.source.lines) + 1)  # JSON has no comments
        else:
            self.open = ()

    def silence(self, finding: Finding) -> bool:
        """Find the comment's location; false if there is none."""
        rules = self._rules_for(finding.location)
        if rules is None:
            return False
        if finding.rule not in rules:
            rules.append(finding.rule)
        return True

    def _rules_for(self, location: Location) -> list[str] | None:
        """The rules of the comment that applies, or will apply, at a location."""
        for comment in self.source.suppressions:
            if comment.rules and not comment.flaw and comment.line in (location.line, location.end_line):
                return self.added.setdefault(comment, [])
        for line in (location.line, location.end_line):
            if self._can_end_in_comment(line):
                return self.at_end.setdefault(line, [])
        return self.above.setdefault(location.line, []) if location.line - 1 not in self.open else None

    def _can_end_in_comment(self, line: int) -> bool:
        """Whether a comment can end the line; one of ours that was not understood prevents another."""
        is_masked = self.source.notebook is not None and line in self.source.notebook.masked
        return line not in self.open and not is_masked and MARK not in self.source.lines[line - 1]

    def written(self, original: bytes) -> bytes:
        """The file with the comments in it; raises CellsBrokenError where they would change more than comments."""
        before = editable_text(self.source)
        lines = before.split("\n")
        for comment, rules in self.added.items():
            index = comment.location.line - 1
            lines[index] = _with_rules(lines[index], comment, rules)
        for line, rules in self.at_end.items():
            lines[line - 1] = f"{lines[line - 1].rstrip()}  {self._comment(rules)}"
        for line in sorted(self.above, reverse=True):
            indent = re.match(r"\s*", lines[line - 1])
            lines.insert(line - 1, f"{indent[0] if indent else ''}{self._comment(self.above[line])}")
        after = "\n".join(lines)
        if not _means_the_same(self.source, before, after):
            raise CellsBrokenError("it would change the code")
        return file_bytes(self.source, after, original)

    def _comment(self, rules: list[str]) -> str:
        return f"# {MARK} ignore[{', '.join(rules)}] -- {self.reason}"


def _means_the_same(source: Source, before: str, after: str) -> bool:
    """Whether two texts of a file differ in comments and layout only."""
    if isinstance(source, Configuration):
        return source.has_content_of(after)
    return _is_same_code(parse(before), parse(after))


def _is_same_code(one: ast.AST, other: ast.AST) -> bool:
    """Whether two syntax trees differ only in where their nodes are; without recursion, for code may be deep."""
    return all(first == second for first, second in zip_longest(_fields(one), _fields(other)))


def _fields(tree: ast.AST) -> Iterator[object]:
    """What tells a syntax tree from all others: the kind and the fields of each node, outer ones first."""
    for node in walk(tree):
        yield type(node)
        yield [_without_nodes(value) for _, value in ast.iter_fields(node)]


def _without_nodes(value: object) -> object:
    """A field of a node, with a mark in the place of each node; numbers of different types are different."""
    match value:
        case ast.AST():
            return "node"
        case list():
            return [_without_nodes(each) for each in cast("Sequence[object]", value)]
        case _:
            return type(value), value


def _with_rules(line: str, comment: Suppression, rules: list[str]) -> str:
    """A line with more rules in the brackets of its comment."""
    start = comment.location.column - 1
    return line[:start] + line[start:].replace("]", f", {', '.join(rules)}]", 1)


STARTS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
ENDS = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}
"""Since Python 3.12, strings with code in them are several tokens."""


def open_lines(text: str) -> frozenset[int]:
    """The lines, from 1, that end inside a string or with a backslash; the text is one that Python can parse."""
    found: set[int] = set()
    begun: list[int] = []
    end = (1, 0)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # A backslash at the end of a line is no token: the next one stands on a later line than this ended on.
        found.update(range(end[0], token.start[0]))
        if token.type in STARTS:
            begun.append(token.start[0])
        elif token.type in ENDS:
            found.update(range(begun.pop(), token.end[0]))
        elif token.type == tokenize.STRING:
            found.update(range(token.start[0], token.end[0]))
        ends_line = token.type in (tokenize.NEWLINE, tokenize.NL)
        end = (token.end[0] + 1, 0) if ends_line else token.end
    return frozenset(found)
