"""The names that a piece of code binds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.source.nodes import children, walk


def bound_within(loop: ast.stmt) -> frozenset[str]:
    """The names that a loop binds."""
    return frozenset(name for inner in walk(loop) for name in bound_names(inner))


def module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of a module in order, without those inside its functions and classes."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(reversed(children(node)))


def bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias():
            yield node.asname or node.name.split(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case _:
            pass
