"""Parsing, with f-strings of Python 3.12 made readable for older versions.

The tree of an edited text: statements outside the edit are those of the previous tree.

    trees = LatestTree()
    with trees.serving(path):
        ...                          # in this block, the tree of this file is parsed only where it was edited

Parsing takes a sixth of what passes from a keystroke to its findings. A tree is never changed: a text of more or fewer
lines than before is parsed as a whole, for the places of all that follows are others.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FORMATTED = lazy_pattern(r"""(?<![\w"'])(?:[fF][rR]?|[rR][fF])(["'])(?!\1\1|\1)""")
"""The start of an f-string on one line."""

ESCAPE = re.compile(r"\\.")

ENDLESS = re.compile(r"0[xXoObB]_?(?=[0-9a-fA-F_]{3500})")
"""A number with more decimal digits than Python prints: a message with it would fail."""

MOST_PARTS = 500
LONG_NAME = re.compile(rf"(?:\.[ \t\f\r\n\\]*+\w++[ \t\f\r\n\\]*+){{{MOST_PARTS}}}")
"""A dotted name of so many parts: of one that is imported the parser keeps every beginning, which filled two gigabytes
for a name of 90 KB."""

BLOCK = re.compile(rf"[\w. \t\f\r\n\\]{{{MOST_PARTS}}}")
"""Characters of dotted names alone: a name of so many parts has twice as many, so it fills a block at some multiple."""

MOST_REPAIRED = 50
"""Lines of one file whose f-strings are read again."""


def parse(text: str) -> ast.Module:
    """The syntax tree of a text; raises SyntaxError where it does not parse, ValueError where a number has no end."""
    if len(text) > 3500 and ENDLESS.search(text):
        raise ValueError("a number in it has more digits than Python writes")
    if _may_hold_long_name(text) and LONG_NAME.search(text):
        raise ValueError(f"a name in it has more than {MOST_PARTS} parts")
    with warnings.catch_warnings():
        # A wrong escape in the user's string is not ours to report; the parser would print a warning into our report.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError as error:
            if sys.version_info >= (3, 12):
                raise
            return _parse_reused_quotes(text, error)


def _may_hold_long_name(text: str) -> bool:
    """Whether a search for a long name is worth its time, a fiftieth of a check: one look per 500 characters."""
    return any(BLOCK.match(text, start) for start in range(0, len(text) - MOST_PARTS + 1, MOST_PARTS))


def expression_of(code: str) -> ast.expr:
    """The tree of one expression of a script; raises SyntaxError where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `parse`
        return ast.parse(code, mode="eval").body


def _parse_reused_quotes(text: str, first: SyntaxError) -> ast.Module:
    """The tree with the inner strings of f-strings written as before 3.12, every column as it was; raises `first`."""
    lines = text.split("\n")
    error = first
    for _ in range(MOST_REPAIRED):
        index = (error.lineno or 0) - 1
        requoted = _requoted(lines[index]) if 0 <= index < len(lines) else ""
        if not requoted or requoted == lines[index]:
            break
        lines[index] = requoted
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError as later:
            if later.lineno == error.lineno:
                break
            error = later
    raise first


def _requoted(line: str) -> str:
    """A line whose f-strings hold strings in other quotes and without escapes, each as long as it was."""
    written, start = "", 0
    while found := FORMATTED.search(line, start):
        inside, end = _formatted(line, found.end(), found[1])
        written, start = written + line[start : found.end()] + inside, end
    return written + line[start:]


def _formatted(line: str, start: int, quote: str) -> tuple[str, int]:
    """The text of an f-string from behind its quote to the quote that ends it, requoted, and where that stands."""
    other = "'" if quote == '"' else '"'
    written, index, depth = "", start, 0
    while index < len(line) and (depth or line[index] != quote):
        character = line[index]
        if depth and character in "\"'":
            end = line.find(character, index + 1)
            end = len(line) - 1 if end < 0 else end
            written += other + ESCAPE.sub("__", line[index + 1 : end]).replace(other, "_") + other
            index = end + 1
            continue
        is_doubled = not depth and line[index : index + 2] in ("{{", "}}")
        width = 2 if is_doubled or character == "\\" else 1
        depth += 0 if is_doubled else (character == "{") - (character == "}")
        written, index = written + line[index : index + width], index + width
    return written, index


@dataclass(eq=False, slots=True)
class LatestTree:
    """The last text of one file that could be parsed, and its tree."""

    path: str = ""
    text: str = ""
    tree: ast.Module | None = None

    @contextmanager
    def serving(self, path: str) -> Generator[None]:
        """Provide the trees of this file in the block, in this thread; the tree of another file is dropped."""
        if path != self.path:
            self.path, self.text, self.tree = path, "", None
        token = _LATEST.set(self)
        try:
            yield
        finally:
            _LATEST.reset(token)

    def of(self, text: str) -> ast.Module:
        """The current tree of the file; raises what `parse` raises, and then keeps the previous tree."""
        # A carriage return ends a line for the parser alone.
        is_known = self.tree is not None and "\r" not in self.text and "\r" not in text
        body = _edited(self.tree.body, self.text.split("\n"), text.split("\n")) if self.tree and is_known else None
        tree = parse(text) if body is None else ast.Module(body=body, type_ignores=[])
        self.text, self.tree = text, tree
        return tree


_LATEST: ContextVar[LatestTree | None] = ContextVar("_LATEST", default=None)


def tree_of(path: str, text: str) -> ast.Module:
    """The tree of a file's text: derived from the previous one if that is kept."""
    latest = _LATEST.get()
    return parse(text) if latest is None or latest.path != path else latest.of(text)


def _edited(body: list[ast.stmt], old: Sequence[str], new: Sequence[str]) -> list[ast.stmt] | None:
    """The statements after an edit; None where more than the lines of some of them has to be parsed to know."""
    if len(old) != len(new):
        return None
    changed = [number for number, lines in enumerate(zip(old, new, strict=True), start=1) if lines[0] != lines[1]]
    if not changed:
        return body
    above = next((index for index, each in enumerate(body) if _end(each) >= changed[0]), len(body))
    below = next((index for index, each in enumerate(body) if _start(each) > changed[-1]), len(body))
    first = _end(body[above - 1]) + 1 if above else 1
    last = _start(body[below]) - 1 if below < len(body) else len(new)
    if _shares_lines(body[above:below], first, last) or first > changed[0] or last < changed[-1]:
        return None
    if any(line.endswith("\\") for line in (*new[max(0, first - 2) : first - 1], new[last - 1])):  # goes on
        return None
    try:
        typed = parse("\n".join([*[""] * (first - 1), *new[first - 1 : last], *[""] * (below < len(body))])).body
    except (SyntaxError, ValueError):
        return None
    return [*body[:above], *typed, *body[below:]]


def _shares_lines(touched: Sequence[ast.stmt], first: int, last: int) -> bool:
    """Whether an edited statement is on a line of another one, after a semicolon."""
    return any(_start(each) < first or _end(each) > last for each in touched)


def _start(statement: ast.stmt) -> int:
    """The first line of a statement, that of its decorators if it has any."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
