"""The nodes of a syntax tree, found faster than by `ast.walk`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, cast

PLAIN = frozenset(
    {
        *("arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module"),
        *("rest", "simple", "str", "tag", "type_comment"),
    }
)
"""Fields that hold a word or a number, or (`ctx`) a mark that belongs to the node."""

NAMES = frozenset({"Global", "Nonlocal"})
"""Nodes whose `names` are words; those of an import are nodes."""

VALUES = frozenset({"Constant", "MatchSingleton"})
"""Nodes whose `value` is a constant itself."""

GAPS = frozenset({"keys", "kw_defaults"})
"""Fields that hold None where `**` has no key, or a parameter no default."""

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or the parts of a statement that do."""


class _Fields(dict[type, tuple[str, ...]]):
    """The fields of each kind of node that hold nodes: asked about at every node, so that a look-up must do."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        name = kind.__name__
        plain = {*PLAIN, *(("name",) if name != "TypeAlias" else ())}
        plain |= ({"names"} if name in NAMES else set()) | ({"value"} if name in VALUES else set())
        self[kind] = tuple(field for field in kind._fields if field not in plain)
        return self[kind]


FIELDS = _Fields()


def walk(tree: ast.AST) -> list[ast.AST]:
    """A tree's nodes, outer ones first, in the order of `ast.walk`; without the contexts `Load`, `Store` and `Del`."""
    found = [tree]
    for node in found:  # which grows as we go
        # As `children(node)`, whose call would cost half of it: every node of every file comes here.
        for field in FIELDS[type(node)]:
            value: Any = getattr(node, field, None)  # Any: a node, a list of them, or None
            if value.__class__ is list:
                found.extend([each for each in value if each is not None] if field in GAPS else value)
            elif value is not None:
                found.append(value)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, in the order of `ast.iter_child_nodes`; without the contexts."""
    found: list[ast.AST] = []
    for field in FIELDS[type(node)]:
        value: Any = getattr(node, field, None)  # Any: a node, a list of them, or None
        if value.__class__ is list:
            found.extend([each for each in value if each is not None] if field in GAPS else value)
        elif value is not None:
            found.append(value)
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
