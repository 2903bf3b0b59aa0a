"""The tree of an edited text: statements outside the edit are those of the previous tree.

    trees = LatestTree()
    with trees.serving(path):
        ...                          # in this block, the tree of this file is parsed only where it was edited

A statement that an edit leaves keeps its nodes, and what was asked about them. If the edit adds or removes lines, the
nodes after it and their locations get other lines, and keep the answers that contain no location. Expressions are
searched for in the edited lines alone (`LatestSearch`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lintrain.source.latest_search import WORD, LatestSearch, edited_lines
from lintrain.source.literals import is_found
from lintrain.source.nodes import ASKED, AT, walk
from lintrain.source.parsing import parse
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import re

Kept = TypeVar("Kept")

MOVED, LASTING = "_moved", "_lasting"
"""Where a statement remembers what the nodes below it keep, and a node how many of its answers hold no location: the
first ones."""


@dataclass(eq=False, slots=True)
class LatestTree:
    """The last text of one file that could be parsed, and its tree."""

    path: str = ""
    text: str = ""
    tree: ast.Module | None = None
    search: LatestSearch = field(default_factory=LatestSearch)
    is_taken: bool = False
    """Whether a tree was given out in this block: another text of the file must not move its nodes."""
    kept: object = None
    """What the reader keeps of the file, by the nodes of its tree."""

    @contextmanager
    def serving(self, path: str) -> Generator[None]:
        """Provide the trees of this file in the block, in this thread; the tree of another file is dropped.

        Trees that an earlier block gave out must not be in use any longer.
        """
        if path != self.path:
            self.path, self.text, self.tree, self.search, self.kept = path, "", None, LatestSearch(), None
        self.is_taken = False
        token = _LATEST.set(self)
        try:
            yield
        finally:
            _LATEST.reset(token)

    def of(self, text: str) -> ast.Module:
        """The current tree of the file; raises what `parse` raises, and then keeps the previous tree."""
        if self.is_taken and text != self.text:
            return parse(text)
        tree = self._edited(text) or parse(text)
        self.text, self.tree, self.is_taken = text, tree, True
        return tree

    def _edited(self, text: str) -> ast.Module | None:
        # A carriage return ends a line for the parser alone.
        if self.tree is None or "\r" in self.text or "\r" in text:
            return None
        body = _edited(self.tree.body, self.text.split("\n"), text.split("\n"))
        return None if body is None else ast.Module(body=body, type_ignores=[])


_LATEST: ContextVar[LatestTree | None] = ContextVar("_LATEST", default=None)


def tree_of(path: str, text: str) -> ast.Module:
    """The tree of a file's text: derived from the previous one if that is kept."""
    latest = _LATEST.get()
    return parse(text) if latest is None or latest.path != path else latest.of(text)


def kept_with(path: str, tree: ast.Module, make: Callable[[], Kept]) -> Kept | None:
    """What is kept with the nodes of this tree from edit to edit; None if it is not the one being edited."""
    latest = _LATEST.get()
    if latest is None or latest.path != path or latest.tree is not tree:
        return None
    if latest.kept is None:
        latest.kept = make()
    return cast("Kept", latest.kept)


def is_found_in(path: str, text: str, pattern: str | re.Pattern[str]) -> bool:
    """Whether a regular expression finds something in a file's text: asked of its edited lines, as far as possible."""
    latest = _LATEST.get()
    if latest is None or latest.path != path:
        return is_found(pattern, text)
    return latest.search.contains(pattern, text)


def words_in(path: str, text: str) -> frozenset[str]:
    """The words of a file's text, each once."""
    latest = _LATEST.get()
    return frozenset(WORD.findall(text)) if latest is None or latest.path != path else latest.search.words(text)


def _edited(body: list[ast.stmt], old: Sequence[str], new: Sequence[str]) -> list[ast.stmt] | None:
    """The statements after an edit; None where more than the lines of some of them has to be parsed to know."""
    begin, end = edited_lines(old, new)
    added = len(new) - len(old)
    if begin == end and not added:
        return body
    above = next((index for index, each in enumerate(body) if _end(each) > begin), len(body))
    below = next((index for index, each in enumerate(body) if _start(each) > end), len(body))
    first = _end(body[above - 1]) + 1 if above else 1
    last = _start(body[below]) - 1 if below < len(body) else len(old)
    if _shares_lines(body[above:below], first, last) or first > begin + 1 or last < end:
        return None
    last += added
    if any(line.endswith("\\") for line in (*new[max(0, first - 2) : first - 1], *new[max(0, last - 1) : last])):
        return None  # it goes on
    try:
        typed = parse("\n".join([*[""] * (first - 1), *new[first - 1 : last], *[""] * (below < len(body))])).body
    except (SyntaxError, ValueError):
        return None
    if added:
        _move(body[below:], added)
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


def _move(statements: Sequence[ast.stmt], lines: int) -> None:
    """Move statements down by so many lines, or up, with their locations; they forget the answers that contain some."""
    for statement in statements:
        for kept in (statement.__dict__, *_dicts_below(statement)):
            if "lineno" in kept:
                kept["lineno"] += lines
                kept["end_lineno"] += lines
                if (at := kept.get(AT)) is not None:  # what was read of it has the same object
                    at.line += lines
                    at.end_line += lines
            if ASKED in kept and len(kept[ASKED]) > kept.get(LASTING, 0):
                _forget_places(kept)


def _dicts_below(statement: ast.stmt) -> list[dict[str, Any]]:  # Any: what a node and its questions keep there
    """What each node below a statement keeps, once: newer grammar may be read as nodes twice."""
    kept = statement.__dict__
    if MOVED not in kept:
        kept[MOVED] = list({id(node): node.__dict__ for node in walk(statement)[1:]}.values())
    return cast("list[dict[str, Any]]", kept[MOVED])


def _forget_places(kept: dict[str, Any]) -> None:
    """Leave of a node's answers those without a location: the first ones from then on, which lasted before too."""
    asked: dict[object, object] = kept[ASKED]
    for question, answer in list(islice(asked.items(), kept.get(LASTING, 0), None)):
        if not _is_without_places(answer):
            del asked[question]
    kept[LASTING] = len(asked)


PLAIN = (ast.AST, str, bool, type(None))


def _is_without_places(answer: object) -> bool:
    """Whether an answer holds nodes, text and booleans alone; a number may be that of a line."""
    if isinstance(answer, PLAIN):
        return True
    if isinstance(answer, dict):
        entries = cast("dict[object, object]", answer)
        return all(map(_is_without_places, entries)) and all(map(_is_without_places, entries.values()))
    return isinstance(answer, list | tuple | set | frozenset) and all(
        map(_is_without_places, cast("Sequence[object]", answer))
    )
