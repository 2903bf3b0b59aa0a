"""Results that code only shows: it prints them or asks for their shape, and computes nothing with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk

SHOWS = frozenset({"print", "pprint", "display"})

ABOUT = frozenset({"data_ptr", "device", "dim", "dtype", "is_contiguous", "ndim", "numel", "shape", "size", "stride"})
"""Attributes and methods of a tensor that tell about it, not what it holds."""


def is_only_shown(pipeline: Pipeline, location: Location) -> bool:
    """Whether the result at a location is printed or asked for its shape, by its name or in place, and nothing else.

    A lesson that prints what a function does makes no mistake with it.
    """
    statement, scope = blocks.statement_at(pipeline, location), blocks.scope_of(pipeline, location)
    if isinstance(statement, ast.Expr):
        return _is_shown(statement.value)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            is_whole = pipeline.source_of(location).location(value) == location
            return is_whole and _is_name_only_shown(scope, statement, name)
        case _:
            return False


def _is_shown(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and unparse(node.func) in SHOWS


def _is_name_only_shown(scope: ast.AST, made: ast.Assign, name: str) -> bool:
    nodes = list(walk(scope))
    later = min(
        (each.lineno for each in _names(nodes, name) if isinstance(each.ctx, ast.Store) and each.lineno > made.lineno),
        default=None,
    )
    loops = [
        each for each in nodes if isinstance(each, ast.For | ast.While) and any(part is made for part in walk(each))
    ]
    # An iteration of a loop may read what an earlier one made.
    uses = [each for each in _names(nodes, name) if isinstance(each.ctx, ast.Load)]
    uses = [each for each in uses if loops or (each.lineno > made.lineno and (later is None or each.lineno <= later))]
    shown = {id(part) for each in nodes if isinstance(each, ast.expr) and _is_shown(each) for part in walk(each)}
    shown |= {id(each.value) for each in nodes if isinstance(each, ast.Attribute) and each.attr in ABOUT}
    return bool(uses) and all(id(each) in shown for each in uses)


def _names(nodes: list[ast.AST], name: str) -> Iterator[ast.Name]:
    return (each for each in nodes if isinstance(each, ast.Name) and each.id == name)
