"""The names in an expression that gradients certainly flow through: no index, no shape, nothing that is detached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import origins
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Function, Instance
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


def cut_outputs(source: Source, forward: Event) -> frozenset[str]:
    """The names of a pass's outputs that its network gives without history: `return out, hidden.detach()`."""
    found = forward.subject.cls.lookup("forward") if isinstance(forward.subject, Instance) else None
    if found is None or not isinstance(found[1], Function):
        return frozenset()
    nodes = walk(found[1].node)
    returned = [each.value for each in nodes if isinstance(each, ast.Return) and each.value is not None]
    assigned = (each for each in source.nodes_of(ast.Assign) if source.location(each.value) == forward.location)
    targets = [target for each in assigned for target in each.targets if isinstance(target, ast.Tuple)]
    return frozenset(
        origins.text_of(name)
        for target in targets
        for position, name in enumerate(target.elts)
        if isinstance(name, ast.Name | ast.Attribute)
        and returned
        and all(_gives_cut(nodes, value, position, len(target.elts)) for value in returned)
    )


def _gives_cut(nodes: Sequence[ast.AST], returned: ast.expr, position: int, count: int) -> bool:
    """Whether a function returns a detached tensor at a position, itself or by a name that always is one."""
    if not isinstance(returned, ast.Tuple) or len(returned.elts) != count:
        return False
    given = returned.elts[position]
    if not isinstance(given, ast.Name):
        return _is_detached(given)
    stores = [
        each for each in nodes if isinstance(each, ast.Name) and each.id == given.id and isinstance(each.ctx, ast.Store)
    ]
    values = [
        each.value
        for each in nodes
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and each.targets[0] in stores
    ]
    return bool(values) and len(values) == len(stores) and all(map(_is_detached, values))


def _is_detached(value: ast.expr) -> bool:
    """Whether the outermost calls of an expression take its history off: `hidden.clone().detach().squeeze()`."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Attribute) and value.attr in CUTS:
            return True
        value = value.func if isinstance(value, ast.Call) else value.value
    return False


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
