"""Frames of pandas: whether code changes one after it was made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.pipeline.values.python import Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

IN_PLACE = frozenset({"insert", "pop", "update"})
READING = frozenset({"from_pandas", "print", "display", "len", "set", "list"})


def may_have_changed(reader: Reader, frame: Value) -> bool:
    """Whether code stores into a frame, changes it in place, or hands it to functions that may."""
    names = {binding.name for binding in reader.record.bindings if binding.value is frame}
    return any(_keeps(reader, node, frame) or _changes(node, names) for node in reader.source.nodes)


def _keeps(reader: Reader, node: ast.AST, frame: Value) -> bool:
    """Whether a statement makes the frame for an attribute or item, which may be changed under another name."""
    match node:
        case ast.Assign(targets=targets, value=value):
            is_there = frame.origin is not None and reader.source.place(value).holds(frame.origin)
            return is_there and not all(isinstance(target, ast.Name) for target in targets)
        case _:
            return False


def _changes(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return _root(node) in names
        case ast.Call(func=func, args=args, keywords=keywords):
            called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if _root(func) in names:
                return called in IN_PLACE or any(each.arg == "inplace" for each in keywords)
            return called not in READING and bool(names & set(_given(args, keywords)))
        case _:
            return False


def _root(node: ast.AST) -> str:
    """The name that a chain of attributes, subscripts and calls starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _given(args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[str]:
    values = [*args, *(each.value for each in keywords)]
    yield from (value.id for value in values if isinstance(value, ast.Name))
