"""Axes that are lost: views with the sizes of a tensor's axes in another order, and squeezes of the batch axis."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.needed_rows import fails_without_rows, has_own_axes, needs_rows
from lintrain.analysis.script_text import networks_of
from lintrain.analysis.single_rows import flat_results, is_one_row, names_with_one_row
from lintrain.analysis.squeezes import (
    EDGES,
    MODEL,
    are_for_one_row,
    compares,
    flat_names,
    nodes_of_graphs,
    regained,
    spread_over_rows,
    squeezed_in,
)
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk, whole_number
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

VIEWS = frozenset({"view", "reshape"})
READS_SIZES = lazy_pattern(
    r"\.(?:view|reshape)\([(\[\s]*\w+\.(?:shape\[|size\()|^\s*\w+(?:\s*,\s*\w+)+\s*=\s*\w+\.(?:shape|size\(\))",
    re.MULTILINE,
)
"""Code that gives sizes of a tensor's axes to a view, or to names."""

VIEW_PATTERN = "|".join(sorted(VIEWS))


@dataclass(frozen=True, slots=True)
class Swap:
    """A view of the tensor `name` that reorders the sizes of its axes; `shape` is where these were read.

    `moved` are the axes that are out of place, in the new order.
    """

    location: Location
    method: str
    name: str
    axes: tuple[int | None, ...]
    moved: tuple[int, ...]
    shape: Location | None


@dataclass(slots=True)
class _Sizes:
    """Names that hold the size of one axis of a tensor: the tensor, the axis, and where it was read."""

    known: dict[str, tuple[str, int, Location]]


def swapping_views(source: Source) -> Iterator[Swap]:
    """Each such view; sizes and tensor are used in the block that reads the sizes, and not assigned in between."""
    if not source.contains(VIEW_PATTERN) or not source.contains(READS_SIZES):
        return
    views = {call.lineno for call in source.nodes_of(ast.Call) if _is_view(call)}
    blocks: Sequence[ast.FunctionDef | ast.For | ast.While | ast.With] = source.nodes_of(
        ast.FunctionDef, ast.For, ast.While, ast.With
    )
    bodies = [source.tree.body, *(node.body for node in blocks)]
    for body in bodies if views else ():
        last = body[-1].end_lineno or 0 if body else 0
        inside = [line for line in views if body[0].lineno <= line <= last]
        sizes = _Sizes({})
        for statement in body if inside else ():
            if any(statement.lineno <= line <= (statement.end_lineno or 0) for line in inside):
                yield from _in_statement(source, statement, sizes)
            _update_sizes(source, statement, sizes)


def _is_view(call: ast.Call) -> bool:
    """Whether a call is `view` or `reshape` with at least two sizes."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in VIEWS and len(_sizes_given(call)) > 1


def _sizes_given(call: ast.Call) -> Sequence[ast.expr]:
    """The sizes, which may be in one tuple or list."""
    if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple | ast.List):
        return call.args[0].elts
    return call.args


def _in_statement(source: Source, statement: ast.stmt, sizes: _Sizes) -> Iterator[Swap]:
    if isinstance(statement, ast.Assign | ast.Return | ast.Expr) and statement.value is not None:
        for node in walk(statement.value):
            swap = _swap(source, node, sizes) if isinstance(node, ast.Call) else None
            if swap is not None:
                yield swap


def _update_sizes(source: Source, statement: ast.stmt, sizes: _Sizes) -> None:
    """Forget the names that a statement assigns, and record the sizes that it reads."""
    if sizes.known:
        _forget_bound(statement, sizes)
    if isinstance(statement, ast.Assign):
        _take_sizes(source, statement, sizes)


def _forget_bound(statement: ast.stmt, sizes: _Sizes) -> None:
    bound = {node.id for node in walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    sizes.known = {name: axis for name, axis in sizes.known.items() if name not in bound and axis[0] not in bound}


def _take_sizes(source: Source, statement: ast.Assign, sizes: _Sizes) -> None:
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
                location = source.location(statement)
                sizes.known.update({name: (tensor, axis, location) for axis, name in enumerate(names)})
        case _:
            pass


def _swap(source: Source, call: ast.Call, sizes: _Sizes) -> Swap | None:
    given = _sizes_given(call)
    name = _viewed_name(call)
    if not name or not isinstance(call.func, ast.Attribute):
        return None
    method = call.func.attr
    if order := _mixed(given, name, sizes):
        shape = next(iter(sizes.known.values()))[2]
        return Swap(source.location(call), method, name, order, (), shape)
    if not isinstance(call.func.value, ast.Name):
        return None
    axes = _from_front([_axis(argument, name, sizes) for argument in given])
    moved = tuple((at, axis) for at, axis in enumerate(axes) if axis is not None and axis != at)
    # The axes that are out of place change places among themselves; axes that are merged or split do not.
    if len(moved) < 2 or sorted(at for at, _ in moved) != sorted(axis for _, axis in moved):
        return None
    if any(axis is None and not _is_rest(argument) for argument, axis in zip(given, axes, strict=True)):
        return None
    taken = [sizes.known[each.id][2] for each in given if isinstance(each, ast.Name) and each.id in sizes.known]
    order = tuple(axis for _, axis in moved)
    return Swap(source.location(call), method, name, tuple(axes), order, taken[0] if taken else None)


def _viewed_name(call: ast.Call) -> str:
    """The name of the tensor that is viewed, `image` also in `torch.from_numpy(image).float().view(…)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in VIEWS:
        return ""
    node = call.func.value
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr="from_numpy" | "tensor"), args=[inner, *_]
            ):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="float" | "to" | "cuda" | "contiguous" | "clone")):
                node = inner
            case _:
                return ""


def _mixed(given: Sequence[ast.expr], name: str, sizes: _Sizes) -> tuple[int, ...]:
    """The order in which a view names all axes of a tensor, merged ones too, if it is another one than theirs.

    Axes that only change their places are found in another way, which knows how to swap them; here one is merged with
    others, or a new axis comes in.
    """
    rank = sum(owner == name for owner, _, _ in sizes.known.values())
    groups = [_axes_in(argument, name, sizes) for argument in given]
    if any(group is None for group in groups) or rank < 3:
        return ()
    named = [axis for group in groups if group for axis in group]
    rest = [axis for axis in range(rank) if axis not in named]
    has_rest = [_is_rest(argument) for argument in given]
    order = [
        axis for group, is_rest in zip(groups, has_rest, strict=True) for axis in (rest if is_rest else group or ())
    ]
    is_merged = any(len(group or ()) > 1 for group in groups) or (any(has_rest) and len(rest) > 1)
    is_new = any(isinstance(argument, ast.Constant) for argument in given)
    is_whole = sorted(order) == list(range(rank)) and len(named) == len(set(named))
    return tuple(order) if is_whole and order != sorted(order) and (is_merged or is_new) else ()


def _axes_in(argument: ast.expr, name: str, sizes: _Sizes) -> list[int] | None:
    """The axes that one size of a view stands for: several in a product, none in 1 and -1; None if that is unclear."""
    match argument:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            parts = [_axes_in(left, name, sizes), _axes_in(right, name, sizes)]
            # `height * width` is `width * height`: which of the merged axes is named first changes nothing.
            return None if None in parts else sorted(axis for part in parts for axis in part or ())
        case ast.Constant(value=1):
            return []
        case _ if _is_rest(argument):
            return []
        case _:
            axis = _axis(argument, name, sizes)
            return None if axis is None else [axis]


def _from_front(axes: list[int | None]) -> list[int | None]:
    """Axes counted from the front, where a view has as many axes as the tensor: all of them are named."""
    if None in axes:
        return axes
    return [axis + len(axes) if axis is not None and axis < 0 else axis for axis in axes]


def _axis(argument: ast.expr, tensor: str, sizes: _Sizes) -> int | None:
    """The axis of the tensor whose size an argument is, or None."""
    match argument:
        case ast.Name(id=name) if name in sizes.known and sizes.known[name][0] == tensor:
            return sizes.known[name][1]
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="size"), args=[axis])
            | ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner), attr="shape"), slice=axis)
        ) if owner == tensor:
            return whole_number(axis)
        case _:
            return None


def _is_rest(argument: ast.expr) -> bool:
    """`-1`, the size that is inferred."""
    return isinstance(argument, ast.UnaryOp) and unparse(argument) == "-1"


HARMLESS = frozenset(
    {"item", "tolist", "numpy", "view", "reshape", "unsqueeze", "unsqueeze_", "cpu", "numel", "dim", "data"}
)
"""What may follow a squeeze without needing its axes."""

WITHOUT_ROWS = frozenset({"mean", "sum", "nonzero", "max", "min", "norm", "item", "var", "std"})
"""Methods that leave no axis, or whose axis is none of rows."""

FOR_ONE_ROW = lazy_pattern(r"infer|generat|sampl|predict|visual|plot|demo|encode_|embed_|greedy|beam|decode_one|loss")
"""Names of methods that people call with a single row on purpose, or in which no batch is left."""


def squeezed_batches(source: Source) -> Iterator[tuple[Location, str]]:
    """The squeezes of all axes of a batch, in a network or in a loop over batches, with what is squeezed."""
    if not source.contains(r"\bsqueeze\("):
        return
    inside: set[ast.AST] = set()
    for owner in networks_of(source):
        inside.update(walk(owner))
        if not compares(owner):  # what a loss or a score averages in the end has no axis anyway
            yield from _squeezes_in_network(source, owner)
    if not source.contains(r"\bdrop_last\s*=\s*True"):
        for loop in source.nodes_of(ast.For):
            if loop not in inside:
                yield from _squeezes_in_loop(source, loop)


def _squeezes_in_network(source: Source, owner: ast.ClassDef) -> Iterator[tuple[Location, str]]:
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef)]
    forward = [node for each in methods if each.name == "forward" for node in walk(each)]
    called = {unparse(each.func) for each in forward if isinstance(each, ast.Call)}
    for method in methods:
        if not FOR_ONE_ROW.search(method.name):
            is_part = method.name == "forward" or f"self.{method.name}" in called
            flat = flat_results(owner, method)
            for where, code, node in _squeezes_in(source, method, is_part):
                if id(node) not in flat and needs_rows(source, owner, node):
                    yield where, code


def _squeezes_in_loop(source: Source, loop: ast.For) -> Iterator[tuple[Location, str]]:
    """The predictions that a training loop squeezes and gives to a loss, next to labels that keep all axes."""
    batch = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    nodes = list(walk(loop))
    if not any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in nodes):
        return
    batch -= {name for node in nodes if (name := _merged(node)) is not None}
    squeezed = {
        target.id: value
        for node in nodes
        if isinstance(node, ast.Assign) and (value := _predictions(node.value, batch)) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in nodes:
        if isinstance(call, ast.Call) and len(call.args) > 1 and fails_without_rows(source, call):
            first, second = call.args[:2]
            given = squeezed.get(first.id) if isinstance(first, ast.Name) else _predictions(first, batch)
            if given is not None and not has_own_axes(source, second):
                yield source.location(given), unparse(squeezed_in(given) or given)


def _merged(node: ast.AST) -> str | None:
    """The batch whose rows become several each, so that there is more than one: `x = torch.flatten(x, 0, 1)`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=(
                ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="flatten"), args=[_, first, _])
                | ast.Call(func=ast.Attribute(attr="flatten"), args=[first, _])
            ),
        ) if whole_number(first) == 0:
            return name
        case _:
            return None


def _predictions(node: ast.expr, batch: set[str]) -> ast.expr | None:
    """The squeeze of what a model gives for a batch: `model(x).squeeze()`."""
    match squeezed_in(node):
        case ast.Call(func=func, args=[first, *_]) if MODEL.search(unparse(func)):
            names = {each.id for each in walk(first) if isinstance(each, ast.Name)}
            return node if names & batch else None
        case _:
            return None


def _squeezes_in(source: Source, method: ast.FunctionDef, is_part: bool) -> Iterator[tuple[Location, str, ast.Call]]:
    nodes = list(walk(method))
    squeezes = [(each, of) for each in nodes if (of := squeezed_in(each))] if method.name != "__init__" else []
    if not squeezes or are_for_one_row(nodes):
        return
    rows = _names_with_rows(method, is_part) - nodes_of_graphs(nodes)
    unharmed = {id(each.value) for each in nodes if isinstance(each, ast.Attribute) and each.attr in HARMLESS}
    unharmed |= regained(nodes)
    whole = rows - {name for each in nodes if isinstance(each, ast.Assign) for name in flat_names(each)}
    unharmed |= {id(each) for node in nodes if isinstance(node, ast.BinOp) for each in spread_over_rows(node, whole)}
    for node, squeezed in squeezes:
        if id(node) in unharmed or not isinstance(node, ast.Call) or not _has_rows(squeezed, rows):
            continue
        if not is_one_row(squeezed, names_with_one_row(nodes, node.lineno)):
            yield source.location(node), unparse(squeezed), node


def _names_with_rows(method: ast.FunctionDef, is_part: bool) -> set[str]:
    """The inputs of a method of the forward pass, and the names that are computed from them or by layers."""
    known = {each.arg for each in method.args.args[1:]} if is_part else set[str]()
    for node in walk(method):
        if isinstance(node, ast.Assign) and _has_rows(node.value, known):
            known |= {part.id for target in node.targets for part in walk(target) if isinstance(part, ast.Name)}
    return known


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _has_rows(node: ast.expr, rows: set[str]) -> bool:
    """Whether an expression is computed from a batch, one row after the other."""
    match node:
        case ast.Name(id=name):
            return name in rows
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=given):
            if len(given) > 1 and EDGES.search(unparse(given[1])):
                return False  # a row for each node of all graphs of the batch
            # `self.words(self.ids)` computes the same rows for every batch.
            return not given or not all(isinstance(each, ast.Attribute) and _is_own(each) for each in given)
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[*_, ast.Constant(value=0)]):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F"), attr=attr), args=[first, *_]):
            return attr not in WITHOUT_ROWS and _has_rows(first, rows)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
            return attr not in WITHOUT_ROWS and _has_rows(owner, rows)
        case ast.BinOp(left=left, right=right):
            return _has_rows(left, rows) or _has_rows(right, rows)
        case ast.Subscript(value=owner, slice=ast.Slice()):
            return _has_rows(owner, rows)
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), *_])):
            return _has_rows(owner, rows)
        case _:
            return False
