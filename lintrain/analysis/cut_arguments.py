"""The names in an expression that gradients certainly flow through: no index, no shape, nothing that is detached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import origins
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.source.source import Source

WITHOUT_GRAPH = frozenset({"data", "detach", "device", "dtype", "dim", "is_cuda", "ndim", "new_zeros", "shape", "size"})
"""Attributes of a tensor that carry no graph."""

CUTS = frozenset({"data", "detach"})
"""Attributes with the values of a tensor that carry no graph."""


def names_on_graph(pipeline: Pipeline, expression: ast.expr) -> set[str]:
    """The names in an expression, without indices, shapes, and what a function detaches: `penalty(critic, fake)`."""
    nodes = walk(expression)
    calls = (each for each in nodes if isinstance(each, ast.Call))
    cut: set[ast.AST] = {argument for each in calls for argument in _cut_by(pipeline, each)}
    cut |= {part for each in nodes if isinstance(each, ast.Subscript) for part in walk(each.slice)}
    cut |= {each.value for each in nodes if isinstance(each, ast.Attribute) and each.attr in WITHOUT_GRAPH}
    return {origins.text_of(name) for name in origins.names_in([expression]) if name not in cut}


def _cut_by(pipeline: Pipeline, call: ast.Call) -> Iterator[ast.expr]:
    """The names that a call gives to functions of this name, of which none certainly keeps their graph."""
    match call.func:
        case ast.Name(id=name):
            first = 0
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            first = 1
        case _:
            return
    called = [each for source in pipeline.sources.values() for each in source.cached(_functions).get(name, ())]
    for position, argument in _given(call, first) if called else ():
        if isinstance(argument, ast.Name) and all(_is_cut(each, position) for each in called):
            yield argument


def _given(call: ast.Call, first: int) -> Iterator[tuple[int | str, ast.expr]]:
    """The arguments of a call, each with the position or the name of its parameter."""
    yield from enumerate(call.args, first)
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)


def _functions(source: Source) -> dict[str, list[ast.FunctionDef]]:
    found = dict[str, list[ast.FunctionDef]]()
    for node in source.nodes_of(ast.FunctionDef):
        found.setdefault(node.name, []).append(node)
    return found


def _is_cut(function: ast.FunctionDef, position: int | str) -> bool:
    """Whether a function detaches a parameter, or what it computes of it, or needs nothing else of it."""
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    name = names[position] if isinstance(position, int) and position < len(names) else position
    if name not in names:
        return False
    nodes = walk(function)
    computed = _computed_from(nodes, str(name))
    if any(isinstance(each, ast.Attribute) and each.attr in CUTS and _names(each.value) & computed for each in nodes):
        return True
    asked = [each.value for each in nodes if isinstance(each, ast.Attribute) and each.attr in WITHOUT_GRAPH]
    used = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
    return bool(used) and all(each in asked for each in used)


def _computed_from(nodes: Sequence[ast.AST], name: str) -> set[str]:
    """A name, and those that simple assignments bind to something computed from it."""
    known = {name}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if _names(value) & known:
                known.add(bound)
            case _:
                pass
    return known


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}
