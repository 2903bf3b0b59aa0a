"""The nodes of a syntax tree, found faster than by `ast.walk`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from typing import cast

PLAIN = frozenset({"arg", "attr", "ctx", "id", "kind", "level", "module", "type_comment"})
"""Fields that hold a word or a number, or (`ctx`) a mark that belongs to the node."""

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or the parts of a statement that do."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """A tree's nodes, outer ones first, in the order of `ast.walk`; without the contexts `Load`, `Store` and `Del`."""
    found = [tree]
    for node in found:  # which grows as we go
        found.extend(children(node))
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, in the order of `ast.iter_child_nodes`; without the contexts."""
    found: list[ast.AST] = []
    for name in _fields(type(node)):  # type: ignore[arg-type] # classes can be hashed, says CPython; typeshed gives `AST` none
        value: object = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found.extend(each for each in cast("list[object]", value) if isinstance(each, ast.AST))
    return found


def statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Every statement of a block, however deep, in no certain order; expressions are not gone into."""
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for block in BLOCKS:
            inner: object = getattr(node, block, None)  # a lambda's or conditional expression's body is no list
            if isinstance(inner, list):
                pending.extend(cast("list[ast.AST]", inner))


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in PLAIN and kind is not ast.Constant)
