"""Targets that are part of the window of inputs that comes before them.

x = series[i : i + size]
y = series[i + size - 1]  # the last value of the window: the next one is `series[i + size]`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

Form = dict[str, int]
"""A number as a sum: the factor of each name, and of `""` for the constant."""

KEEPS = frozenset({"float", "copy", "clone", "astype", "values", "to_numpy", "to", "flatten", "reshape", "squeeze"})
WRAPS = frozenset({"tensor", "as_tensor", "from_numpy", "array", "asarray", "FloatTensor", "Tensor"})


@dataclass(frozen=True, slots=True)
class InsideTarget:
    """A target that begins inside its window: where, the code of both, and how many rows before its end."""

    location: Location
    window: Location
    rows: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows of an array: what it is a part of, the code of its other axes, the first row and the one behind."""

    node: ast.Subscript
    base: str
    axes: str
    first: Form
    end: Form | None
    """None for a single row."""


def targets_inside(source: Source) -> Iterator[InsideTarget]:
    """The pairs of a window and a target of one array, of which the target begins before the window ends."""
    if not any(isinstance(each.lower, ast.expr) and each.upper is not None for each in source.nodes_of(ast.Slice)):
        return
    for function in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(function)
        given = _given(nodes)
        for inputs, target in _pairs(nodes):
            window, wanted = _part(inputs, given), _part(target, given)
            if window is not None and wanted is not None and (rows := _rows_inside(window, wanted)):
                yield InsideTarget(source.location(wanted.node), source.location(window.node), rows)


def _given(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """What the names of a function are given, of those that are given something once."""
    found = dict[str, list[ast.expr]]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case ast.AugAssign(target=target, value=value):
                pairs = [(target, value), (target, value)]
            case _:
                continue
        for target, value in pairs:
            while isinstance(target, ast.Subscript):
                target = target.value  # `window[0] = 0` gives it something too
            found.setdefault(unparse(target), []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _pairs(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The inputs and the target that a function returns, or that a loop appends to two lists one after another."""
    for node in nodes:
        match node:
            case ast.Return(value=ast.Tuple(elts=[inputs, target])):
                yield inputs, target
            case ast.Return(value=ast.Dict(values=[inputs, target])):
                yield inputs, target
            case ast.Call(func=ast.Attribute(attr="append"), args=[ast.Tuple(elts=[inputs, target])]):
                yield inputs, target
            case ast.For(body=body):
                appended = [each for statement in body for each in _appended(statement)]
                if len(appended) == 2:
                    yield appended[0], appended[1]
            case _:
                pass


def _appended(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[given])):
            return [given]
        case _:
            return []


def _part(node: ast.expr, given: dict[str, ast.expr], steps: int = 3) -> _Part | None:
    """The rows of an array that an expression is, through names and other forms."""
    match node:
        case ast.Name(id=name) if name in given and steps:
            return _part(given[name], given, steps - 1)
        case ast.Call(func=ast.Attribute(attr=name), args=[inner, *_]) if name in WRAPS:
            return _part(inner, given, steps)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) | ast.Attribute(value=inner, attr=name) if (
            name in KEEPS
        ):
            return _part(inner, given, steps)
        case ast.Subscript(value=base, slice=index):
            axes = index.elts if isinstance(index, ast.Tuple) else [index]
            others = "" if all(unparse(each) in {":", "..."} for each in axes[1:]) else unparse(node).partition(",")[2]
        case _:
            return None
    match axes[0]:
        case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None):
            first, end = _form(lower, given), _form(upper, given)
            return _Part(node, unparse(base), others, first, end) if first is not None and end is not None else None
        case ast.Slice() | ast.Constant():
            return None
        case index:
            first = _form(index, given)
            return _Part(node, unparse(base), others, first, None) if first is not None else None


def _rows_inside(window: _Part, target: _Part) -> int:
    """How many rows before the end of its window a target begins; 0 for one that is not certainly inside."""
    same = window.base == target.base and window.axes in {"", target.axes}
    if not same or window.end is None:
        return 0
    rows = _constant(_minus(window.end, target.first))
    length, before = _minus(window.end, window.first), _minus(target.first, window.first)
    starts_later = _constant(before)
    if rows is None or rows <= 0 or (starts_later is not None and starts_later <= 0):
        return 0
    # A window that is shifted by some rows has the next value of each row as its targets.
    if target.end is not None and _constant(_minus(_minus(target.end, target.first), length)) == 0:
        return 0
    return rows if target.end is not None or rows == 1 else 0


def _minus(left: Form, right: Form) -> Form:
    found = {name: left.get(name, 0) - right.get(name, 0) for name in {*left, *right}}
    return {name: factor for name, factor in found.items() if factor}


def _constant(form: Form) -> int | None:
    return form.get("", 0) if set(form) <= {""} else None


def _form(node: ast.expr, given: dict[str, ast.expr], steps: int = 4) -> Form | None:
    """A number as a sum of names with factors; None for anything that is not written as such."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return {"": value} if value else {}
        case ast.Name(id=name) if name in given and steps:
            found = _form(given[name], given, steps - 1)
            return {name: 1} if found is None else found
        case ast.Name() | ast.Attribute():
            return {unparse(node): 1}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _form(operand, given, steps)
            return None if inner is None else _minus({}, inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
            one, other = _form(left, given, steps), _form(right, given, steps)
            if one is None or other is None:
                return None
            if isinstance(operator, ast.Mult):
                return {unparse(node): 1}
            return _minus(one, other if isinstance(operator, ast.Sub) else _minus({}, other))
        case _:
            return None
