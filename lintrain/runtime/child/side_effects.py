"""Does a function given to `Dataset.map` do more than turn rows into rows? Read from its source, never run."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from lintrain.runtime.child.frames import is_users

CHANGING = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "update",
        "write",
        "writelines",
    }
)
DEEPEST = 3


def side_effect(function: Any, depth: int = 0) -> str | None:
    """What a function changes outside of itself, as text after its name; None if it changes nothing."""
    # A `partial` of a `partial` is one function for Python, two objects here.
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        return _of_object(function, depth)
    if not is_users(function.__code__.co_filename):
        return None
    tree = _tree(function)
    if tree is None:
        return "has no readable source"
    return _of_tree(tree, function, depth)


def _of_object(called: object, depth: int) -> str | None:
    """Library objects (a tokenizer) only turn rows into rows; an object of the user's own class is read."""
    method = getattr(type(called), "__call__", None)  # noqa: B004 - the method itself is wanted, to read it
    return side_effect(method, depth) if isinstance(method, FunctionType) else None


def _tree(function: FunctionType) -> ast.AST | None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None
    # The source of a lambda is the whole statement that it stands in, often a part of a call over several lines.
    for text in (source, f"({source.strip().rstrip(',')})", _lambda_part(source)):
        try:
            parsed = ast.parse(text)
        except SyntaxError:
            continue
        return _own_node(parsed, function)
    return None


def _lambda_part(source: str) -> str:
    """The text from `lambda` on, cut back until it parses."""
    text = source[source.find("lambda") :] if "lambda" in source else ""
    for end in range(len(text), 0, -1):
        try:
            ast.parse(text[:end], mode="eval")
        except SyntaxError:
            continue
        return text[:end]
    return "("


def _own_node(parsed: ast.Module, function: FunctionType) -> ast.AST:
    kinds = (ast.Lambda,) if function.__name__ == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((node for node in ast.walk(parsed) if isinstance(node, kinds)), parsed)


def _of_tree(tree: ast.AST, function: FunctionType, depth: int) -> str | None:
    own = set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
    own.discard("self")  # an attribute of the object outlives the call
    for node in ast.walk(tree):
        changed = _changed_name(node)
        # Changing a local name is what a function is for; what it did not make itself outlives the call.
        if changed is not None and changed not in own:
            return f"changes `{changed}`"
    if depth < DEEPEST:
        for called in _called(tree, function):
            found = side_effect(called, depth + 1)
            if found:
                return f"calls `{called.__name__}`, which {found}"
    return None


def _changed_name(node: ast.AST) -> str | None:
    """The name of the object that a statement changes in place, or that it binds outside of the function."""
    match node:
        case ast.Global() | ast.Nonlocal():
            return node.names[0]
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return _root(node)
        case ast.Call(func=ast.Attribute(attr=attribute, value=value)) if attribute in CHANGING:
            return _root(value)
        case ast.Call(func=ast.Name(id="open")):
            return "a file"
        case ast.Call(func=ast.Name(id="next")) if node.args:
            return _root(node.args[0])
        case _:
            return None


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _called(tree: ast.AST, function: FunctionType) -> Iterator[FunctionType]:
    closure = inspect.getclosurevars(function)
    known = {**closure.globals, **closure.nonlocals}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = known.get(node.func.id)
            if isinstance(called, FunctionType):
                yield called
