"""Whether a finding is at the place of a mistake, in the file before a fix and in the file after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher

LINES_OFF = 3
LOOPS = ast.For | ast.AsyncFor | ast.While


def is_near(source: str, place: int, line: int) -> bool:
    """At most three lines off, or in the same innermost loop, or in the same statement (a call over several lines)."""
    if abs(place - line) <= LINES_OFF:
        return True
    return any(first <= place <= last and first <= line <= last for first, last in _spans(source, place))


def _spans(source: str, place: int) -> Iterator[tuple[int, int]]:
    """The lines of the innermost loop around a place and of the simple statement that it is part of."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return
    around = [node for node in nodes if isinstance(node, ast.stmt) and _covers(node, place)]
    loops = [node for node in around if isinstance(node, LOOPS)]
    if loops:
        yield _lines(max(loops, key=lambda node: node.lineno))
    for node in around:
        if not hasattr(node, "body"):
            yield _lines(node)


def _covers(node: ast.stmt, line: int) -> bool:
    first, last = _lines(node)
    return first <= line <= last


def _lines(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


def line_after(before: str, after: str, line: int) -> int:
    """Where a line of the file before stands in the file after; a changed or removed one, where its successor does."""
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for _, first, last, new_first, new_last in matcher.get_opcodes():
        if first < line <= last:
            return min(new_first + line - first, max(new_last, new_first + 1))
    return line
