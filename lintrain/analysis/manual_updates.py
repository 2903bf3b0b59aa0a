"""Weights that a loop changes by hand: `w -= rate * w.grad`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_UPDATES = 64
"""Backward calls of one script whose loops are searched for updates by hand."""

CLEARED = lazy_pattern(r"zero|\.grad\s*=|clear|detach|requires_grad|autograd\.grad")


def updates_by_hand(pipeline: Pipeline) -> Iterator[tuple[Event, Location]]:
    """The backward calls of loops that change weights by `w -= rate * w.grad`, and never clear a gradient."""
    for backward in pipeline.acts(Act.BACKWARD)[:MOST_UPDATES]:
        loop = backward.loops[-1] if backward.loops else None
        if (
            loop is None
            or backward.location.path != pipeline.source.path
            or CLEARED.search(re.sub(r"#.*", "", pipeline.code(loop.location)))
        ):
            continue
        if any(event.act in (Act.STEP, Act.ZERO_GRAD) for event in pipeline.events_in(loop)):
            continue
        for node in pipeline.source.nodes_of(ast.AugAssign, ast.Assign, ast.Expr):
            at = pipeline.source.location(node)
            if _steps_down(node) and loop.location.holds(at):
                yield backward, at
                break


def _steps_down(node: ast.stmt) -> bool:
    """Whether a statement changes a weight against its gradient: `w -= rate * w.grad`, `w.data.add_(-rate, w.grad)`."""
    match node:
        case ast.AugAssign(op=ast.Sub(), value=value):
            return _holds_grad(value)
        case ast.AugAssign(op=ast.Add(), value=value):
            return _holds_grad(value) and _is_negative(value)
        case ast.Assign(targets=[ast.Attribute(attr="data")], value=ast.BinOp(op=ast.Sub(), right=right)):
            return _holds_grad(right)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="sub_"), args=[first])):
            return _holds_grad(first)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_"), args=args, keywords=keywords)):
            given = [*args, *(each.value for each in keywords)]
            return any(map(_holds_grad, given)) and any(map(_is_negative, given))
        case _:
            return False


def _holds_grad(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in walk(node))


def _is_negative(node: ast.expr) -> bool:
    return any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub) for each in walk(node))
