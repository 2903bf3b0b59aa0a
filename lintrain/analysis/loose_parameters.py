"""Tensors that the constructor of a network makes with `requires_grad=True`, and that no optimizer can get."""

from __future__ import annotations

import ast

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

GIVES_BY_NAME = frozenset({"getattr", "setattr", "register_parameter", "register_buffer", "__setattr__"})
"""Calls that reach an attribute by a text with its name."""

READS_GRADIENT = frozenset({"grad", "data", "backward", "register_hook", "retain_grad"})
"""Attributes of a tensor with which code updates it by hand, or looks at its gradient."""

HANDS_ON = lazy_pattern(r"(?i)optim|param|^(?:adam|sgd|rmsprop|adagrad|lbfgs|grad)w?$")
"""Calls whose arguments are what is to be trained, or differentiated."""


def needs_grad(node: ast.expr) -> bool:
    """Whether an expression makes a tensor that is to be trained."""
    return any(
        isinstance(each, ast.keyword)
        and each.arg == "requires_grad"
        and isinstance(each.value, ast.Constant)
        and each.value.value is True
        for each in walk(node)
    )


def first_read(source: Source, owner: ast.ClassDef, init: ast.FunctionDef, name: str) -> ast.Attribute | None:
    """Where a method reads such an attribute of its network, if nothing gives it to an optimizer or updates it."""
    own = [each for each in walk(owner) if _is_of_object(each, name)]
    inside = {id(each) for each in walk(owner)}
    uses = (each for each in source.named(name) if isinstance(each, ast.Attribute) and id(each) not in inside)
    if any(not _is_of_object(each, name) for each in uses):
        return None  # `network.weight`, and this may be the network
    stored = [each for each in own if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)]
    if len(stored) != 1 or any(_gives_away(node, name) for node in walk(owner)):
        return None
    first = {id(each) for each in walk(init)}
    read = (each for each in own if isinstance(each, ast.Attribute) and id(each) not in first)
    return next((each for each in read if isinstance(each.ctx, ast.Load)), None)


def _is_of_object(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return attr == name
        case _:
            return False


def _gives_away(node: ast.AST, name: str) -> bool:
    """Whether a node may hand the attribute to an optimizer, update it by hand, or reach it by its name."""
    match node:
        case ast.Attribute(value=inner, attr=attr) if attr in READS_GRADIENT:
            return _is_of_object(inner, name)
        case ast.Call(func=func, args=given, keywords=more):
            called, parts = last_name(func), [*given, *(each.value for each in more)]
            if called in GIVES_BY_NAME:
                return any(isinstance(each, ast.Constant) and each.value == name for each in parts)
            handed = HANDS_ON.search(called) is not None or called in {"append", "extend"}
            return handed and any(_is_of_object(part, name) for each in parts for part in walk(each))
        case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
            return _is_listed(value, name)
        case ast.Assign(value=value):
            return _is_listed(value, name) or f"self.{name}" == unparse(value)
        case _:
            return False


def _is_listed(value: ast.expr, name: str) -> bool:
    """Whether a value is the attribute itself, or a list or dictionary that holds it."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return any(_is_listed(each, name) for each in parts)
        case ast.Dict(values=parts):
            return any(_is_listed(each, name) for each in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right) if isinstance(left, ast.List) or isinstance(
            right, ast.List
        ):
            return _is_listed(left, name) or _is_listed(right, name)
        case _:
            return _is_of_object(value, name)
