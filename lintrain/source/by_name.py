"""Calls and scopes of a file by the names that are in them: most of both have none of what a rule asks about."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from lintrain.source.nodes import is_within
from lintrain.source.source import Source

Answer = TypeVar("Answer")

Scope = ast.Module | ast.FunctionDef


def calls_of(source: Source, names: Collection[str]) -> list[ast.Call]:
    """The calls of functions and methods with one of these names, in the order of `nodes_of`."""
    known = source.cached(_numbers_by_name)
    found = [number for name in names for number in known.get(name, ())]
    calls = source.nodes_of(ast.Call) if found else ()
    return [calls[number] for number in (found if len(names) == 1 else sorted(found))]


def _numbers_by_name(source: Source) -> dict[str, list[int]]:
    """Which of the calls of a file are those of a name."""
    found: dict[str, list[int]] = {}
    for number, call in enumerate(source.nodes_of(ast.Call)):
        called = call.func
        if isinstance(called, ast.Attribute):
            found.setdefault(called.attr, []).append(number)
        elif isinstance(called, ast.Name):
            found.setdefault(called.id, []).append(number)
    return found


def scopes_naming(source: Source, *words: str) -> Sequence[Scope]:
    """The file and its functions that may have a name or attribute of these words; none if the file has none."""
    lines = sorted(node.lineno for node in source.named(*words))
    if not lines:
        return ()
    functions = source.nodes_of(ast.FunctionDef)
    return (source.tree, *(each for each in functions if each.decorator_list or is_within(lines, each)))


def scopes_with(source: Source, question: Callable[[Scope], Answer]) -> list[tuple[Scope, Answer]]:
    """The file and its functions for which a question about their syntax has an answer that is not empty."""
    scopes: tuple[Scope, ...] = (source.tree, *source.nodes_of(ast.FunctionDef))
    return [(scope, found) for scope in scopes if (found := source.once(question, scope))]
