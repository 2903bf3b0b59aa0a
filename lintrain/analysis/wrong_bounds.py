"""Bounds on the wrong side: `min` with the lowest number that a value is to have, `max` with the highest one.

A rate of exploration that falls from 1 to 0.05 is kept at 0.05 by `max`. `min` takes it there in its first step, and
below it later. The numbers that a file gives the names show on which side a value starts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import IntEnum

from lintrain.analysis import given_numbers
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source import by_name
from lintrain.source.nodes import is_within, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LOWER, HIGHER = frozenset({"min", "minimum"}), frozenset({"max", "maximum"})
CLIPS = frozenset({"clip", "clamp", "clip_", "clamp_"})
OWNERS = frozenset({"np", "numpy", "torch", "th", "math"})
LIMITED = lazy_pattern(r"(?:=|return)\s*(?:\w+\.)?(?:min|max|minimum|maximum)\(|\bcl(?:ip|amp)_?\(")
RAMPS = lazy_pattern(r"(?i)warm_?up|anneal|ramp")
COUNTERS = lazy_pattern(r"(?i)step|iter|epoch|episode|frame|^t$|^i$|_idx$|count")


class Way(IntEnum):
    """How a value changes with the steps of a run."""

    DOWN = -1
    UP = 1


@dataclass(frozen=True, slots=True)
class WrongBound:
    """A bound that no value keeps to: where, in words, and what to write."""

    location: Location
    message: str
    remedy: str


def wrong_bounds(source: Source) -> Iterator[WrongBound]:
    """The bounds of a file that are on the wrong side of what they limit, or in the wrong order."""
    if not source.contains(LIMITED):
        return
    calls = by_name.calls_of(source, LOWER | HIGHER)
    limits = {id(each) for each in calls if _is_plain(each)}
    statements: list[ast.Assign | ast.Return] = [*source.nodes_of(ast.Assign), *source.nodes_of(ast.Return)]
    for statement in statements if limits else ():
        if isinstance(statement.value, ast.Call) and id(statement.value) in limits:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            yield from _of_limit(source, statement.value, target)
    for call in by_name.calls_of(source, CLIPS):
        yield from _of_clip(source, call)


def _is_plain(call: ast.Call) -> bool:
    """Whether a call takes the smaller or the larger one of two numbers, one of which is computed here."""
    if len(call.args) != 2 or call.keywords or not any(isinstance(each, ast.BinOp) for each in call.args):
        return False
    match call.func:
        case ast.Name():
            return True
        case ast.Attribute(value=ast.Name(id=owner)):
            return owner in OWNERS
        case _:
            return False


def _of_limit(source: Source, call: ast.Call, target: ast.expr | None) -> Iterator[WrongBound]:
    name, (first, second) = last_name(call.func), call.args
    for bound, moving in ((first, second), (second, first)):
        if not isinstance(moving, ast.BinOp):
            continue
        number = given_numbers.number_of(source, bound)
        if number is None or (target is not None and unparse(bound) == unparse(target)):
            continue
        if name in HIGHER and number == 1 and _is_ramp(moving):
            yield WrongBound(
                source.location(call),
                f"`{unparse(call)}` is never below 1, so nothing is warmed up",
                "write `min`, which lets it rise from 0 to 1",
            )
            continue
        way = _way_of_update(source, moving, target, call, number) or _way_from(source, moving, bound, number)
        if (name in LOWER and way is Way.DOWN) or (name in HIGHER and way is Way.UP):
            end, other = ("lowest", "max") if way is Way.DOWN else ("highest", "min")
            yield WrongBound(
                source.location(call),
                f"`{name}` gives the {end} value, {number:g}, at once, and then passes it",
                f"write `{other}`, which stops at {number:g}",
            )


def _way_of_update(
    source: Source, moving: ast.expr, target: ast.expr | None, call: ast.Call, bound: float
) -> Way | None:
    """How an update of a value in each step moves it, if it starts beyond its bound: `x * 0.99` with 1 and 0.05."""
    if target is None or not isinstance(moving, ast.BinOp) or not _is_repeated(source, target, call):
        return None
    is_left = unparse(moving.left) == unparse(target)
    if not is_left and unparse(moving.right) != unparse(target):
        return None
    step = given_numbers.number_of(source, moving.right if is_left else moving.left)
    starts = given_numbers.starts_of(source, target, call)
    known = [each for each in starts if each is not None]
    if step is None or step <= 0 or not known or len(known) < len(starts):
        return None
    way = _way(moving.op, step, is_left=is_left)
    if way is Way.DOWN:
        return way if min(known) > bound else None
    return way if max(known) < bound else None


def _way(operator: ast.operator, step: float, *, is_left: bool) -> Way | None:
    match operator:
        case ast.Mult():
            return None if step == 1 else Way.UP if step > 1 else Way.DOWN
        case ast.Div() if is_left:
            return None if step == 1 else Way.DOWN if step > 1 else Way.UP
        case ast.Add():
            return Way.UP
        case ast.Sub() if is_left:
            return Way.DOWN
        case _:
            return None


def _is_repeated(source: Source, target: ast.expr, call: ast.Call) -> bool:
    """Whether an update runs in each step: in a loop, or in a method for an attribute."""
    if isinstance(target, ast.Attribute):
        return True
    loops = [*source.nodes_of(ast.For), *source.nodes_of(ast.While)]
    return any(is_within([call.lineno], each) for each in loops)


def _way_from(source: Source, moving: ast.expr, bound: ast.expr, number: float) -> Way | None:
    """How a value moves from its first number, if that is beyond the bound: `start - rate * step`."""
    way: Way | None
    match moving:
        case ast.BinOp(left=start, op=ast.Sub(), right=change):
            way = Way.DOWN
        case ast.BinOp(left=start, op=ast.Add(), right=change):
            way = Way.UP
        case ast.BinOp(left=start, op=ast.Mult(), right=ast.BinOp(left=base, op=ast.Pow(), right=change)):
            factor = given_numbers.number_of(source, base)
            way = Way.DOWN if factor is not None and 0 < factor < 1 else None
        case _:
            return None
    first = given_numbers.number_of(source, start)
    if first is not None and first.is_integer() and number.is_integer():
        return None  # `min(batch_size, rows - done)` is what is left of a number of rows
    are_named = all(isinstance(each, ast.Name | ast.Attribute) for each in (start, bound))
    if first is None or way is None or not _counts(change) or not (are_named or isinstance(moving.op, ast.Mult)):
        return None
    return way if (first > number if way is Way.DOWN else first < number) else None


def _counts(node: ast.expr) -> bool:
    """Whether an expression grows with the steps of a run."""
    return any(
        COUNTERS.search(each.id if isinstance(each, ast.Name) else each.attr) is not None
        for each in walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    )


def _is_ramp(node: ast.expr) -> bool:
    """Whether an expression is the part of a warm-up that is over: `step / warmup_steps`."""
    match node:
        case ast.BinOp(left=done, op=ast.Div(), right=ast.Name(id=name) | ast.Attribute(attr=name)):
            return RAMPS.search(name) is not None and _counts(done)
        case _:
            return False


def _of_clip(source: Source, call: ast.Call) -> Iterator[WrongBound]:
    """Limits of a clip in the wrong order."""
    is_function = isinstance(call.func, ast.Attribute) and unparse(call.func.value) in OWNERS
    names: list[str] = ["min", "max"]
    given = dict(zip(names, call.args[is_function:], strict=False))
    given.update({each.arg.removeprefix("a_"): each.value for each in call.keywords if each.arg is not None})
    low, high = given.get("min"), given.get("max")
    if low is None or high is None or not (_is_around(low, high) or _is_above(source, low, high)):
        return
    yield WrongBound(
        source.location(call),
        f"the lower limit `{unparse(low)}` is above the upper limit `{unparse(high)}`",
        "exchange the two limits: every value becomes the upper one",
    )


def _is_above(source: Source, low: ast.expr, high: ast.expr) -> bool:
    least, most = given_numbers.number_of(source, low), given_numbers.number_of(source, high)
    return least is not None and most is not None and least > most


def _is_around(low: ast.expr, high: ast.expr) -> bool:
    """Whether the limits are `1 + eps` and `1 - eps`, in this order."""
    match low, high:
        case ast.BinOp(left=one, op=ast.Add(), right=more), ast.BinOp(left=other, op=ast.Sub(), right=less):
            return unparse(one) == unparse(other) and unparse(more) == unparse(less)
        case _:
            return False
