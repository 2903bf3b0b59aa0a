"""The values of actions that a loss compares: `(N, 1)` from `gather`, `(N,)` from a maximum over the actions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

KEEPS = frozenset({"to", "cuda", "cpu", "float", "double", "long", "int", "detach", "clone", "type", "half", "mean_"})
FUNCTIONS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
CLASSES = frozenset({"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"})


class Axes(StrEnum):
    """The axes of the values of a batch."""

    COLUMN = "(N, 1)"
    ROW = "(N,)"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A loss, or a difference, of a column and a row: where, and the axes of its two sides."""

    location: Location
    left: Axes
    right: Axes


def broadcast(source: Source) -> Iterator[Compared]:
    """The losses of a file that compare the values of actions with other axes."""
    if ".gather(" not in source.text:
        return
    for call in source.nodes_of(ast.Call):
        if len(call.args) > 1 and _is_regression(source, call):
            left, right = (_axes(source, each) for each in call.args[:2])
            if {left, right} == {Axes.COLUMN, Axes.ROW}:
                yield Compared(source.location(call), left, right)


def _is_regression(source: Source, call: ast.Call) -> bool:
    if last_name(call.func) in FUNCTIONS:
        return True
    made = loss_terms.assigned(source, unparse(call.func))
    return bool(made) and all(isinstance(each, ast.Call) and last_name(each.func) in CLASSES for each in made)


def _axes(source: Source, node: ast.expr, steps: int = 8) -> Axes:
    """The axes of the values of an expression, as far as its code shows them."""
    if steps <= 0:
        return Axes.UNKNOWN
    match node:
        case ast.Name():
            made = list(loss_terms.definitions(source, node))
            value, position, operator = made[0] if len(made) == 1 else (node, 0, None)
            return _axes(source, value, steps - 1) if position is None and operator is None else Axes.UNKNOWN
        case ast.BinOp(left=left, right=right):
            return _of_sum(source, left, right, steps)
        case ast.UnaryOp(operand=inner):
            return _axes(source, inner, steps - 1)
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)) if _is_maximum(call):
            return Axes.ROW
        case ast.Attribute(value=ast.Call() as call, attr="values") if _is_maximum(call):
            return Axes.ROW
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=None)])):
            return Axes.COLUMN
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return _of_method(source, node, inner, name, steps)
        case _:
            return Axes.UNKNOWN


def _of_sum(source: Source, left: ast.expr, right: ast.expr, steps: int) -> Axes:
    """Those of `reward + gamma * best * (1 - done)`: a row with anything of one axis is a row."""
    sides = {_axes(source, each, steps - 1) for each in (left, right) if not isinstance(each, ast.Constant)}
    if sides <= {Axes.ROW, Axes.UNKNOWN} and Axes.ROW in sides:
        return Axes.ROW
    return Axes.COLUMN if sides == {Axes.COLUMN} else Axes.UNKNOWN


def _of_method(source: Source, call: ast.Call, inner: ast.expr, name: str, steps: int) -> Axes:
    given = [unparse(each) for each in call.args]
    if name in KEEPS:
        return _axes(source, inner, steps - 1)
    if name == "gather" and len(given) == 2 and given[0] in {"1", "-1"}:
        is_column = _axes(source, call.args[1], steps - 1) is Axes.COLUMN
        return Axes.COLUMN if is_column and isinstance(inner, ast.Call) else Axes.UNKNOWN
    if name == "unsqueeze" and given in (["1"], ["-1"]):
        return Axes.COLUMN
    if name in {"view", "reshape"} and given in (["-1", "1"], ["(-1, 1)"]):
        return Axes.COLUMN
    if name == "squeeze" and (not given or given in (["1"], ["-1"])):
        return Axes.ROW if _axes(source, inner, steps - 1) is Axes.COLUMN else Axes.UNKNOWN
    return Axes.UNKNOWN


def _is_maximum(call: ast.Call) -> bool:
    """Whether a call takes the best action of each row, and drops their axis."""
    names = {each.arg: unparse(each.value) for each in call.keywords}
    axes = {unparse(each) for each in call.args} | {names.get("dim", ""), names.get("axis", "")}
    return last_name(call.func) == "max" and bool(axes & {"1", "-1"}) and "keepdim" not in names and "True" not in axes
