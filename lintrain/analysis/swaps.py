"""Calls of `view` and `reshape` that pass the sizes of a tensor's axes in another order."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.startup.lazy_dataclass import dataclass

VIEWS = frozenset({"view", "reshape"})
VIEW_PATTERN = "|".join(sorted(VIEWS))


@dataclass(frozen=True, slots=True)
class Swap:
    """A view of the tensor `name` that swaps the sizes of two axes; `shape` is where these were read."""

    location: Location
    method: str
    name: str
    axes: tuple[int, int]
    shape: Location | None


@dataclass(slots=True)
class _Sizes:
    """Names that hold the size of one axis of a tensor: the tensor, the axis, and where it was read."""

    known: dict[str, tuple[str, int, Location]]


def swapping_views(pipeline: Pipeline) -> Iterator[Swap]:
    """Each such view; sizes and tensor are used in the block that reads the sizes, and not assigned in between."""
    if not pipeline.source.contains(VIEW_PATTERN):
        return
    views = {call.lineno for call in pipeline.source.nodes_of(ast.Call) if _is_view(call)}
    blocks: Sequence[ast.FunctionDef | ast.For | ast.While | ast.With] = pipeline.source.nodes_of(
        ast.FunctionDef, ast.For, ast.While, ast.With
    )
    bodies = [pipeline.source.tree.body, *(node.body for node in blocks)]
    for body in bodies if views else ():
        last = body[-1].end_lineno or 0 if body else 0
        inside = [line for line in views if body[0].lineno <= line <= last]
        sizes = _Sizes({})
        for statement in body if inside else ():
            if any(statement.lineno <= line <= (statement.end_lineno or 0) for line in inside):
                yield from _in_statement(pipeline, statement, sizes)
            _update_sizes(pipeline, statement, sizes)


def _is_view(call: ast.Call) -> bool:
    """Whether a call is `view` or `reshape` with at least two sizes."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in VIEWS and len(call.args) > 1


def _in_statement(pipeline: Pipeline, statement: ast.stmt, sizes: _Sizes) -> Iterator[Swap]:
    if isinstance(statement, ast.Assign | ast.Return | ast.Expr) and statement.value is not None:
        for node in walk(statement.value):
            swap = _swap(pipeline, node, sizes) if isinstance(node, ast.Call) else None
            if swap is not None:
                yield swap


def _update_sizes(pipeline: Pipeline, statement: ast.stmt, sizes: _Sizes) -> None:
    """Forget the names that a statement assigns, and record the sizes that it reads."""
    if sizes.known:
        _forget_bound(statement, sizes)
    if isinstance(statement, ast.Assign):
        _take_sizes(pipeline, statement, sizes)


def _forget_bound(statement: ast.stmt, sizes: _Sizes) -> None:
    bound = {node.id for node in walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    sizes.known = {name: axis for name, axis in sizes.known.items() if name not in bound and axis[0] not in bound}


def _take_sizes(pipeline: Pipeline, statement: ast.Assign, sizes: _Sizes) -> None:
    """`rows, steps = batch.shape`."""
    match statement:
        case (
            ast.Assign(targets=[ast.Tuple(elts=elements)], value=ast.Attribute(value=ast.Name(id=tensor), attr="shape"))
            | ast.Assign(
                targets=[ast.Tuple(elts=elements)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="size"), args=[]),
            )
        ):
            names = [element.id for element in elements if isinstance(element, ast.Name)]
            if len(names) == len(elements) == len(set(names)) and tensor not in names:
                location = pipeline.source.location(statement)
                sizes.known.update({name: (tensor, axis, location) for axis, name in enumerate(names)})
        case _:
            pass


def _swap(pipeline: Pipeline, call: ast.Call, sizes: _Sizes) -> Swap | None:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=arguments) if method in VIEWS:
            axes = [_axis(argument, name, sizes) for argument in arguments]
        case _:
            return None
    moved = [(at, axis) for at, axis in enumerate(axes) if axis is not None and axis != at]
    if len(moved) != 2 or moved[0] != moved[1][::-1] or moved[1][0] - moved[0][0] != 1:
        return None
    if any(axis is None and not _is_rest(argument) for argument, axis in zip(call.args, axes, strict=True)):
        return None
    taken = [sizes.known[each.id][2] for each in call.args if isinstance(each, ast.Name) and each.id in sizes.known]
    return Swap(pipeline.source.location(call), method, name, moved[0], taken[0] if taken else None)


def _axis(argument: ast.expr, tensor: str, sizes: _Sizes) -> int | None:
    """The axis of the tensor whose size an argument is, or None."""
    match argument:
        case ast.Name(id=name) if name in sizes.known and sizes.known[name][0] == tensor:
            return sizes.known[name][1]
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="size"), args=[ast.Constant(value=int(axis))])
            | ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=owner), attr="shape"), slice=ast.Constant(value=int(axis))
            )
        ) if owner == tensor:
            return axis
        case _:
            return None


def _is_rest(argument: ast.expr) -> bool:
    """`-1`, the size that is inferred."""
    return isinstance(argument, ast.UnaryOp) and ast.unparse(argument) == "-1"
