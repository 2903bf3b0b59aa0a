"""Files in which a function keeps what it made: what it loads from them is what it stored there before."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import LibraryObject, Unstored, Value
from lintrain.source.nodes import unparse, walk

STORES = frozenset({"save", "dump"})
"""Functions that put their first argument into the file that is their second: of torch, NumPy, pickle and joblib."""


@function("torch.load", "pickle.load", "joblib.load", "dill.load", "cPickle.load")
def _load(call: Call) -> Value:
    """`torch.load(cache)` beside `torch.save(features, cache)`: the branch that makes the features decides."""
    escape(call)
    body, node = _body(call), call.node
    if body is not None and isinstance(node, ast.Call) and node.args and _is_stored(call, body, node.args[0]):
        return Unstored(origin=call.location)
    return LibraryObject(call.path, call.values(), origin=call.location)


def _is_stored(call: Call, body: ast.AST, file: ast.expr) -> bool:
    return bool(call.reader.once(_stored, body) & _paths(file, call.reader.once(_opened, body)))


def _body(call: Call) -> ast.AST | None:
    """The code of the function under evaluation."""
    own = call.reader.frame.function
    return None if own is None else own.node


def _opened(body: ast.AST) -> dict[str, frozenset[str]]:
    """The code of the paths that `open` is given, by the name of the file object."""
    found: dict[str, frozenset[str]] = {}
    for node in walk(body):
        for name, opening in _bindings(node):
            if _is_open(opening):
                found[name] = found.get(name, frozenset()) | _paths(opening, {})
    return found


def _is_open(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and unparse(node.func).endswith("open")


def _paths(node: ast.expr, opened: dict[str, frozenset[str]]) -> frozenset[str]:
    """The code of the paths that a file may have, given by path, by name or opened on the spot."""
    if isinstance(node, ast.Call) and _is_open(node):
        return frozenset({unparse(node.args[0])})
    text = unparse(node)
    return opened.get(text, frozenset()) | {text}


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.With(items=items):
            for item in items:
                if isinstance(item.optional_vars, ast.Name):
                    yield item.optional_vars.id, item.context_expr
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case _:
            pass


def _stored(body: ast.AST) -> frozenset[str]:
    """The code of the paths that something is stored in."""
    opened, found = _opened(body), frozenset[str]()
    for node in walk(body):
        if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.func, ast.Attribute):
            found |= _paths(node.args[1], opened) if node.func.attr in STORES else frozenset()
    return found
