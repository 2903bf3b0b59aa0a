"""Averages of tokens over a mask that a script computes itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

SUMS = frozenset({"sum", "nansum"})
RESHAPES = frozenset({"unsqueeze", "expand", "expand_as", "view", "reshape", "float", "to", "type_as", "bool", "long"})
"""Methods of a mask that leave its rows what they are."""


@dataclass(frozen=True, slots=True)
class MaskedMean:
    """A sum over the tokens of each row that is divided by a mask's sum over all rows, with the mask's code."""

    location: Location
    mask: str


def masked_means(source: Source) -> list[MaskedMean]:
    """The divisions of a file that divide each row by the tokens of the whole batch."""
    return source.cached(_masked_means)


def _masked_means(source: Source) -> list[MaskedMean]:
    found: list[tuple[ast.BinOp, str]] = []
    for node in source.nodes_of(ast.BinOp):
        if isinstance(node.op, ast.Div):
            mask, product = _sum_of_all(node.right), _sum_along(node.left)
            if mask and product is not None and mask in _factors(product):
                found.append((node, mask))
    inner = [part for node in source.nodes_of(ast.Call) for part in _whole_sums(node)] if found else []
    summed = {id(part) for part in inner} | _held_by(source, {part.id for part in inner if isinstance(part, ast.Name)})
    return [MaskedMean(source.location(node), mask) for node, mask in found if id(node) not in summed]


def _held_by(source: Source, names: set[str]) -> set[int]:
    """The identities of the divisions in the values of some names: if those are summed, they are means after all."""
    values = (
        node.value
        for node in source.nodes_of(ast.Assign)
        if any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    )
    return {id(each) for value in values for each in walk(value) if isinstance(each, ast.BinOp)}


def _whole_sums(node: ast.Call) -> Iterator[ast.expr]:
    """What a call sums over all axes: `x.sum()`, `torch.sum(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), args=[inner], keywords=[]):
            yield from [inner] if attr in SUMS else []
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=[], keywords=[]):
            yield from [inner] if attr in SUMS else []
        case _:
            pass


def _sum_of_all(node: ast.expr) -> str:
    """The code of the mask that an expression sums over all rows; empty for others."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant()):
            return _sum_of_all(left)
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="clamp" | "clamp_min" | "float" | "to")):
            return _sum_of_all(inner)
        case ast.Call():
            return next((_base(inner) for inner in _whole_sums(node)), "")
        case _:
            return ""


def _sum_along(node: ast.expr) -> ast.expr | None:
    """What an expression sums along one axis that is not the first."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[inner, *rest]):
            given = rest
        case ast.Call(func=ast.Attribute(value=inner, attr="sum"), args=given):
            pass
        case _:
            return None
    axes = [*given, *(each.value for each in node.keywords if each.arg in {"dim", "axis"})]
    literals = [ast.literal_eval(axis) for axis in axes if _is_number(axis)]
    return inner if len(axes) == 1 == len(literals) and literals[0] != 0 else None


def _is_number(node: ast.expr) -> bool:
    operand = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(operand, ast.Constant) and type(operand.value) is int


def _factors(node: ast.expr) -> set[str]:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _factors(left) | _factors(right)
        case _:
            return {_base(node)}


def _base(node: ast.expr) -> str:
    """The code of a mask without what only adds axes to it or changes its type."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in RESHAPES:
            return _base(owner)
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=keys)) if all(map(_adds_axis, keys)):
            return _base(owner)
        case _:
            return unparse(node)


def _adds_axis(key: ast.expr) -> bool:
    is_all = isinstance(key, ast.Slice) and key.lower is None and key.upper is None and key.step is None
    return is_all or (isinstance(key, ast.Constant) and (key.value is None or key.value is ...))
