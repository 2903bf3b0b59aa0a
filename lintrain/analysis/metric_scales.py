"""Metrics that compare predictions in their own units with targets that are still scaled, or the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

METRICS = frozenset(
    {
        *("mean_squared_error", "mean_absolute_error", "r2_score", "root_mean_squared_error"),
        *("mean_absolute_percentage_error", "median_absolute_error", "max_error"),
    }
)
SAME = frozenset({"reshape", "flatten", "ravel", "squeeze", "astype", "to_numpy", "copy", "numpy", "cpu", "detach"})
"""Methods that leave the numbers of rows what they are."""

ARRAYS = frozenset({"array", "asarray", "squeeze", "ravel", "concatenate", "reshape", "float32"})

MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class OtherScale:
    """A metric of two scales: where, the scaled argument, the scaler, and where the other one is scaled back."""

    location: Location
    scaled: str
    scaler: str
    back: Location


def other_scales(source: Source) -> Iterator[OtherScale]:
    """The metrics of a file one of whose arguments is scaled back, and the other is not."""
    if "inverse_transform(" not in source.text:
        return
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) not in METRICS or len(call.args) < 2:
            continue
        for one, other in (call.args[:2], call.args[1::-1]):
            back = _back(source, one)
            if back is None or not isinstance(back.func, ast.Attribute):
                continue
            scaler = unparse(back.func.value)
            if _scaler_of(source, other, MOST_STEPS) == scaler:
                yield OtherScale(source.location(call), unparse(other), scaler, source.location(back))
                break


def _latest(source: Source, node: ast.expr) -> tuple[ast.expr, int | None] | None:
    """What a name was given last, with its number in a tuple; None if that is not certain."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    made = next(iter(loss_terms.definitions(source, node)), None)
    return None if made is None or made[2] is not None else (made[0], made[1])


def _bare(node: ast.expr) -> ast.expr:
    """An array without the methods and functions that leave its numbers what they are."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy" | "torch"), attr=name), args=[inner, *_]):
            return _bare(inner) if name in ARRAYS else node
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in SAME:
            return _bare(inner)
        case ast.Subscript(value=inner):
            return _bare(inner)
        case _:
            return node


def _back(source: Source, node: ast.expr, steps: int = 4) -> ast.Call | None:
    """The call that scales an argument back to its units."""
    node = _bare(node)
    match node:
        case ast.Call(func=ast.Attribute(attr="inverse_transform")):
            return node
        case _:
            made = _latest(source, node) if steps else None
            return _back(source, made[0], steps - 1) if made and made[1] is None else None


def _scaler_of(source: Source, node: ast.expr, steps: int) -> str:
    """The code of the scaler that gave an array its numbers; empty if that is not certain."""
    node = _bare(node)
    if steps <= 0:
        return ""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="transform" | "fit_transform")):
            return unparse(owner)
        case ast.Name():
            made = _latest(source, node)
            if made is None:
                return ""
            value, position = made
            if isinstance(value, ast.List) and not value.elts:
                return _one({_scaler_of(source, each, steps - 1) for each in loss_terms.appended(source, node)})
            if position is not None:
                return _of_part(source, value, position, steps)
            return _scaler_of(source, value, steps - 1)
        case _:
            return ""


def _of_part(source: Source, value: ast.expr, position: int, steps: int) -> str:
    """The scaler behind one of several results: of a split, or of a function that cuts windows."""
    if not isinstance(value, ast.Call):
        return ""
    if last_name(value.func) == "train_test_split":
        given = value.args[position // 2] if position // 2 < len(value.args) else None
        return _scaler_of(source, given, steps - 1) if given is not None else ""
    own = [each for each in source.nodes_of(ast.FunctionDef) if each.name == last_name(value.func)]
    if len(own) != 1 or any("scaler" in unparse(each) or "fit" in unparse(each) for each in own):
        return ""
    rows = next((each for each in value.args if not isinstance(each, ast.Constant)), None)
    return _scaler_of(source, rows, steps - 1) if rows is not None else ""


def _one(found: set[str]) -> str:
    return found.pop() if len(found) == 1 else ""
