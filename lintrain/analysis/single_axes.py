"""Axes of a single entry, which a view may move without moving an element."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

KEEPS_AXES = lazy_pattern(r"drop|norm|relu|gelu|act|tanh|sigmoid", re.IGNORECASE)
"""Names of layers that keep the axes of what they get."""


def moves_one_entry(source: Source, location: Location, name: str, order: Sequence[int | None]) -> bool:
    """Whether a view with the axes in another order moves one of a single entry, so that no element moves.

    That is the last axis of what a linear layer with one output gives, and of what is added to it.
    """
    around = [node for node in source.nodes_of(ast.FunctionDef) if source.location(node).holds(location)]
    if not around or None in order:
        return False
    outputs = source.cached(_with_one_output)
    single: dict[str, int] = {}
    nodes = [node for node in walk(around[-1]) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for node in sorted(nodes, key=lambda each: each.lineno):
        if source.location(node) >= location or source.location(node).holds(location):
            break
        axis = _single_axis(node.value, single, outputs, len(order))
        single.pop(unparse(node.targets[0]), None)
        if axis is not None:
            single[unparse(node.targets[0])] = axis
    axis = single.get(name)
    return axis is not None and order[axis] != axis


def _with_one_output(source: Source) -> frozenset[str]:
    """The attributes of a file that are linear layers with one output, and nothing else."""
    found: dict[str, bool] = {}
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                code = unparse(target)
                found[code] = found.get(code, True) and _is_linear_to_one(node.value)
    return frozenset(code for code, is_one in found.items() if is_one)


def _is_linear_to_one(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="Linear") | ast.Name(id="Linear"), args=[_, ast.Constant(value=1), *_]):
            return True
        case _:
            return False


def _single_axis(node: ast.expr, known: dict[str, int], outputs: frozenset[str], rank: int) -> int | None:
    """The axis of a result that has a single entry, if that is certain."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Call(func=func) if unparse(func) in outputs or _is_linear_to_one(func):
            return rank - 1
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="view" | "reshape"), args=sizes) if (
            name in known
        ):
            axes = [_axis_read(each) for each in sizes]
            return axes.index(known[name]) if known[name] in axes else None
        case ast.Call(func=func, args=[ast.Name(id=name)]) if KEEPS_AXES.search(unparse(func)):
            return known.get(name)
        case ast.Call(func=ast.Attribute(attr=made), args=[inner]) if made in MAKES_ARRAY:
            return _single_axis(inner, known, outputs, rank)
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice() as rows, *_]) | (ast.Slice() as rows)):
            return 0 if _is_one_row(rows) else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [_single_axis(each, known, outputs, rank) for each in (left, right)]
            return next((axis for axis in sides if axis is not None), None)
        case _:
            return None


MAKES_ARRAY = frozenset({"array", "asarray", "tensor", "as_tensor", "from_numpy"})
"""Functions that make an array or a tensor of what they get, with its axes."""


def _is_one_row(rows: ast.Slice) -> bool:
    """Whether a slice holds a single row: `index : index + 1`."""
    match rows:
        case ast.Slice(
            lower=ast.expr() as lower,
            upper=ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)),
            step=None,
        ):
            return unparse(left) == unparse(lower)
        case _:
            return False


def _axis_read(node: ast.expr) -> int | None:
    """The number in `x.shape[2]`."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=int(axis))):
            return axis
        case _:
            return None
