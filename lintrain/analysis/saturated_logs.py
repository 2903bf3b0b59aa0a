"""Logarithms of `1 - tanh(x) ** 2`, which rounds to 0 as soon as `x` is above 9."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.small_numbers import last_value
from lintrain.model.location import Location
from lintrain.source.by_name import scopes_naming
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TANH = lazy_pattern(r"\btanh\(")


@dataclass(frozen=True, slots=True)
class Saturated:
    """A logarithm of `1 - tanh(x) ** 2`: where, and the code that it is of."""

    location: Location
    of: str


def saturated_logs(source: Source) -> Iterator[Saturated]:
    """The logarithms of one minus the square of a `tanh`, to which nothing is added."""
    if not source.contains(TANH):
        return
    for scope in scopes_naming(source, "log"):
        for node in own_nodes(scope):
            match node:
                case ast.Call(
                    func=function, args=[ast.BinOp(ast.Constant(value=1 | 1.0), ast.Sub(), square) as of]
                ) if unparse(function) == "torch.log":
                    base = _squared(square)
                    if base is not None and _is_tanh(scope, base):
                        yield Saturated(source.location(node), unparse(of))
                case _:
                    pass


def _squared(node: ast.expr) -> ast.expr | None:
    """`x` of `x ** 2`, `x.pow(2)`, `torch.square(x)` and `x * x`."""
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2)):
            return base
        case ast.BinOp(left=base, op=ast.Mult(), right=other) if unparse(base) == unparse(other):
            return base
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="pow"), args=[base, ast.Constant(value=2)]):
            return base
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="square"), args=[base]):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="pow"), args=[ast.Constant(value=2)]):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="square"), args=[]):
            return base
        case _:
            return None


def _is_tanh(scope: ast.AST, node: ast.expr) -> bool:
    """Whether a value is a `tanh`, under its name too."""
    value = last_value(scope, node) if isinstance(node, ast.Name) else node
    return isinstance(value, ast.Call) and last_name(value.func) == "tanh"
