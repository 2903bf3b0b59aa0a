"""The tree of an edited text: statements outside the edit are those of the previous tree.

    trees = LatestTree()
    with trees.serving(path):
        ...                          # in this block, the tree of this file is parsed only where it was edited

Parsing takes a sixth of what passes from a keystroke to its findings. A tree is never changed: a text of more or fewer
lines than before is parsed as a whole, for the places of all that follows are others.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lintrain.source.parsing import parse
from lintrain.startup.lazy_dataclass import dataclass


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
