"""What is at a place of a file: the statement and the call there.

Each statement outside of functions and blocks answers for the lines that it has, so that after an edit only those that
were edited are looked through again.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from lintrain.model.location import Location
from lintrain.source.bounds import Nesting
from lintrain.source.nodes import ASKED, ordered_below, walk
from lintrain.source.source import Source

Answer = TypeVar("Answer")


def call_at(source: Source, location: Location) -> ast.Call | None:
    """The call that is exactly at a location; the outermost one where a string with code has several."""
    found = (_kept(source, _calls, statement).get(location) for statement in _outermost(source, location.line))
    return next((call for call in found if call is not None), None)


def expression_at(source: Source, location: Location) -> ast.expr | None:
    """The expression that is exactly at a location; the outermost one where several begin and end together."""
    found = (_kept(source, _expressions, statement).get(location) for statement in _outermost(source, location.line))
    return next((each for each in found if each is not None), None)


def statement_at(source: Source, location: Location) -> ast.stmt | None:
    """The innermost statement around a location."""
    for statement in _outermost(source, location.line):
        if source.location(statement).holds(location):
            return _kept(source, _statements, statement).innermost(location) or statement
    return None


def _outermost(source: Source, line: int) -> Iterator[ast.stmt]:
    """The statements outside of functions and blocks that are on a line, the last one first; few have a semicolon."""
    starts, body = source.cached(_starts), source.tree.body
    for index in range(bisect_right(starts, line) - 1, -1, -1):
        if (body[index].end_lineno or starts[index]) < line:
            return
        yield body[index]


def _starts(source: Source) -> list[int]:
    """The first line of each of them, that of a decorator if it has one."""
    return [
        min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        for statement in source.tree.body
    ]


def _calls(source: Source, statement: ast.stmt) -> dict[Location, ast.Call]:
    return {source.location(node): node for node in reversed(walk(statement)) if isinstance(node, ast.Call)}


def _expressions(source: Source, statement: ast.stmt) -> dict[Location, ast.expr]:
    return {source.location(node): node for node in reversed(walk(statement)) if isinstance(node, ast.expr)}


def _statements(source: Source, statement: ast.stmt) -> Nesting[ast.stmt]:
    """The statements below one, without it: a tree has no circle."""
    ordered = ordered_below(statement)
    return Nesting([(source.location(node), node) for node, _ in ordered], [around for _, around in ordered])


def _kept(source: Source, question: Callable[[Source, ast.stmt], Answer], statement: ast.stmt) -> Answer:
    """The answer about a statement and its locations, computed once while both are kept."""
    answers: dict[object, object] = statement.__dict__.setdefault(ASKED, {})
    if question not in answers:
        answers[question] = question(source, statement)
    return cast("Answer", answers[question])
