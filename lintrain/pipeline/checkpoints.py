"""Checkpoints as scripts read them back: which expression is what a file held, and what is taken out of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.source.nodes import walk

READERS = frozenset({"torch.load", "load_file", "safetensors.torch.load_file"})


def is_read(node: ast.expr) -> bool:
    """Whether an expression reads a file of weights: `torch.load(…)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in READERS


def loaded_from_file(tree: ast.AST, node: ast.expr) -> ast.expr | None:
    """The call that reads a file, if an expression is what the file held or an entry of it, unchanged; else None."""
    for _ in range(4):
        while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            node = node.value
        if is_read(node):
            return node
        made = _only_value(tree, node.id) if isinstance(node, ast.Name) else None
        if made is None:
            return None
        node = made
    return None


def _only_value(tree: ast.AST, name: str) -> ast.expr | None:
    """What a name is assigned, if that happens once in the file and nothing changes the value afterwards."""
    values: list[ast.expr] = []
    for node in walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                values.append(value)
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()) if found == name:
                values.append(node)
            case ast.arg(arg=found) if found == name:
                return None
            case ast.Subscript(value=ast.Name(id=found), ctx=ast.Store() | ast.Del()) if found == name:
                return None
            case ast.Attribute(value=ast.Name(id=found), attr="pop" | "update" | "clear" | "popitem") if found == name:
                return None
            case _:
                pass
    # the assignment is seen twice: as a statement, and as its target
    return values[0] if len(values) == 2 and not isinstance(values[0], ast.Name) else None


def entries_read(tree: ast.AST, key: str) -> Iterator[ast.Subscript]:
    """Where an entry of a checkpoint is read by its key."""
    for node in walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=found), ctx=ast.Load()) if found == key:
                if loaded_from_file(tree, node) is not None:
                    yield node
            case _:
                pass
