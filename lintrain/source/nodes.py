"""The nodes of a syntax tree, found faster than by `ast.walk`."""

from __future__ import annotations

import ast
from functools import cache
from typing import cast

PLAIN = frozenset({"arg", "attr", "ctx", "id", "kind", "level", "module", "type_comment"})
"""Fields that hold a word or a number, or (`ctx`) a mark that belongs to the node."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """A tree's nodes, outer ones first, in the order of `ast.walk`; without the contexts `Load`, `Store` and `Del`."""
    found = [tree]
    for node in found:  # which grows as we go
        for name in _fields(type(node)):  # type: ignore[arg-type] # classes can be hashed, says CPython; typeshed gives `AST` none
            value: object = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found.extend(each for each in cast("list[object]", value) if isinstance(each, ast.AST))
    return found


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in PLAIN and kind is not ast.Constant)
