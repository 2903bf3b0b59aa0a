"""Sums and metrics over the batches of all epochs that a file reads as if they were those of one epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard

from lintrain.model.location import Location
from lintrain.source.nodes import is_within, own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WRAPPERS = frozenset({"enumerate", "tqdm", "trange", "track", "list", "iter"})
"""Functions that give the items of what they get first."""


@dataclass(frozen=True, slots=True)
class LastingSum:
    """A sum over the batches of all epochs that is divided by the batches of one: where, and the code of the sum."""

    location: Location
    started: Location
    added: Location
    total: str


def lasting_sums(source: Source) -> Iterator[LastingSum]:
    """The divisions of sums that start before all epochs by the number of batches in one."""
    loops = source.nodes_of(ast.For)
    starts = sorted(loop.lineno for loop in loops)
    outer = [loop for loop in loops if is_within(starts, loop, after=1)]
    lines = sorted(node.lineno for node in source.nodes_of(ast.AugAssign) if _is_addition(node))
    lines = sorted(loop.lineno for loop in outer if is_within(lines, loop))
    scopes = (node for node in source.nodes_of(ast.FunctionDef) if is_within(lines, node))
    for scope in (source.tree, *scopes) if lines else ():
        nodes = own_nodes(scope)
        loops = [node for node in nodes if isinstance(node, ast.For)] if any(map(_is_addition, nodes)) else []
        nested = [(loop, inner) for loop in loops for inner in own_nodes(loop) if isinstance(inner, ast.For)]
        assigned = _assigned_in(nodes) if nested else {}
        for epochs, batches in nested:
            yield from _lasting_in(source, assigned, epochs, batches)


def lasting_metrics(source: Source) -> Iterator[LastingSum]:
    """The metrics of Keras that are made before all epochs, read after each, and never set back.

    A step of the loop may be a function of the file, and a metric that is called is updated.
    """
    if not source.contains(r"\bmetrics\.\w+\(") or source.contains(r"reset_metrics\("):
        return
    made = {
        name: node
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and "metrics." in (code := unparse(node.value.func))
        for name in [unparse(node.targets[0])]
        if code.startswith(("tf.keras.", "keras.", "tensorflow.keras.", "metrics."))
    }
    resets = [each for each in source.nodes_of(ast.Attribute) if each.attr in {"reset_state", "reset_states"}]
    reset = {unparse(each.value) for each in resets} if made else set[str]()
    if not reset <= made.keys():
        return  # what is reset under another name may be any of the metrics
    for epochs in source.nodes_of(ast.For) if made.keys() - reset else ():
        inner = [each for each in own_nodes(epochs) if isinstance(each, ast.For)]
        called = {unparse(node.func) for loop in inner for node in own_nodes(loop) if isinstance(node, ast.Call)}
        steps: list[ast.For | ast.FunctionDef] = [*inner]
        steps += (each for each in source.nodes_of(ast.FunctionDef) if inner and each.name in called)
        added = {**dict(metric_calls(steps, "")), **dict(metric_calls(steps, "update_state"))}
        read = dict(metric_calls([epochs], "result"))
        for name in (added.keys() & read.keys() & made.keys()) - reset:
            if inner and made[name].lineno < epochs.lineno:
                at = source.location
                yield LastingSum(at(read[name]), at(made[name]), at(added[name]), name)


def metric_calls(scopes: Iterable[ast.For | ast.FunctionDef], method: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a method in loops or functions, by the code of what they are called on; of that itself for ""."""
    for scope in scopes:
        for node in own_nodes(scope):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name == method:
                    yield unparse(owner), node
                case ast.Call(func=called) if not method:
                    yield unparse(called), node
                case _:
                    pass


def _assigned_in(nodes: Iterable[ast.AST]) -> dict[str, list[ast.Assign]]:
    """The assignments of a scope by the code of their targets, in the order of the code."""
    found: dict[str, list[ast.Assign]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            found.setdefault(unparse(node.targets[0]), []).append(node)
    return found


def _lasting_in(
    source: Source, assigned: Mapping[str, list[ast.Assign]], epochs: ast.For, batches: ast.For
) -> Iterator[LastingSum]:
    over, set_again = _items_of(_wrapped(epochs, batches)), _set_in(epochs)
    if over is None or set_again & {*_names_in(over), unparse(over)}:
        return
    sums = {unparse(node.target): node for node in own_nodes(batches) if _is_addition(node)}
    pace = _Pace(
        epochs,
        batches,
        _index_of(batches, batches.iter) or _index_of(batches, _wrapped(epochs, batches)),
        frozenset({unparse(over), *_rows_of(over, epochs, assigned)}),
    )
    for division in (node for node in walk(epochs) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        total = unparse(_without_factor(division.left))
        if total not in sums or total in set_again:
            continue
        started = _last_before(epochs, assigned.get(total, []))
        if started is not None and _is_zero(started.value) and pace.is_of_one(division.right, assigned):
            added = source.location(sums[total])
            yield LastingSum(source.location(division), source.location(started), added, total)


@dataclass(frozen=True, slots=True)
class _Pace:
    """The batches of one epoch: both loops, the number of a batch, and the code of what the inner one goes through."""

    epochs: ast.For
    batches: ast.For
    index: str
    items: frozenset[str]

    def is_of_one(self, count: ast.expr, assigned: Mapping[str, list[ast.Assign]], depth: int = 0) -> bool:
        """Whether a number counts the batches or rows of one epoch, or as many as were seen of them."""
        match count:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as counted]):
                return unparse(counted).removesuffix(".dataset") in self.items
            case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(), inner] | [inner, ast.Constant()]):
                return self.is_of_one(inner, assigned, depth)
            case ast.BinOp(left=inner, op=ast.FloorDiv()):
                return self.is_of_one(inner, assigned, depth)
            case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=ast.Constant(value=1)):
                return name == self.index
            case ast.Name(id=name) if depth == 0:
                return self._counts_again(name) or self._is_set_to_one(name, assigned)
            case _:
                return False

    def _counts_again(self, name: str) -> bool:
        """Whether a name starts at 0 in each epoch, and grows with its batches."""
        started = [value for target, value in _set_before(self.epochs, self.batches) if target == name]
        grows = any(_is_addition(node) and unparse(node.target) == name for node in own_nodes(self.batches))
        return grows and len(started) == 1 and _is_zero(started[0])

    def _is_set_to_one(self, name: str, assigned: Mapping[str, list[ast.Assign]]) -> bool:
        """Whether the last value of a name before all epochs, or its only one in them, is such a number."""
        inside = [each for each in assigned.get(name, []) if self.epochs.lineno < each.lineno <= _end(self.epochs)]
        made = inside[0] if len(inside) == 1 else None if inside else _last_before(self.epochs, assigned.get(name, []))
        return made is not None and self.is_of_one(made.value, assigned, 1)


def _end(loop: ast.For) -> int:
    return loop.end_lineno or loop.lineno


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _index_of(loop: ast.For, over: ast.expr) -> str:
    """The name that counts the items of a loop from 0: `for step, batch in enumerate(loader)`."""
    match loop.target, over:
        case ast.Tuple(elts=[ast.Name(id=name), *_]), _ if _counts_from_zero(over):
            return name
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[_]):
            return name
        case _:
            return ""


def _counts_from_zero(over: ast.expr) -> bool:
    """Whether the items of a loop are numbered from 0, with a progress bar around the numbers or inside of them."""
    while isinstance(over, ast.Call) and over.args and _called(over) in WRAPPERS - {"enumerate"}:
        over = over.args[0]
    return isinstance(over, ast.Call) and _called(over) == "enumerate" and len(over.args) == 1 and not over.keywords


def _set_before(epochs: ast.For, batches: ast.For) -> Iterator[tuple[str, ast.expr]]:
    """What the block around the loop of the batches gives to names before it, in each epoch."""
    for statement in epochs.body:
        if statement.lineno >= batches.lineno:
            return
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from zip(map(unparse, targets), values, strict=False)
            case _:
                pass


def _wrapped(epochs: ast.For, batches: ast.For) -> ast.expr:
    """What a loop goes through; for a name that each epoch gives a progress bar, the bar that it gives it."""
    over = _items_of(batches.iter)
    given = [value for name, value in _set_before(epochs, batches) if isinstance(over, ast.Name) and name == over.id]
    is_bar = len(given) == 1 and isinstance(given[0], ast.Call) and _called(given[0]) in WRAPPERS
    return given[0] if is_bar else batches.iter


def _rows_of(over: ast.expr, loop: ast.For, assigned: Mapping[str, list[ast.Assign]]) -> Iterator[str]:
    """The data set whose rows a loader gives, by the name that the loader was made with."""
    made = _last_before(loop, assigned.get(unparse(over), []))
    loader = made.value if made is not None else None
    if isinstance(loader, ast.Call) and loader.args and _called(loader) == "DataLoader":
        yield unparse(loader.args[0])


def _without_factor(node: ast.expr) -> ast.expr:
    """The sum in `100 * hits`."""
    match node:
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=total):
            return total
        case ast.BinOp(left=total, op=ast.Mult(), right=ast.Constant()):
            return total
        case _:
            return node


def _items_of(node: ast.expr) -> ast.expr | None:
    """What a loop goes through, inside `enumerate` and progress bars, or by its index; None if it is computed."""
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[items])]):
            return items if isinstance(items, ast.Name | ast.Attribute) else None
        case _:
            pass
    while isinstance(node, ast.Call) and node.args and _called(node) in WRAPPERS:
        node = node.args[0]
    return node if isinstance(node, ast.Name | ast.Attribute) else None


def _is_addition(node: ast.AST) -> TypeGuard[ast.AugAssign]:
    return isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)


def _set_in(loop: ast.For) -> set[str]:
    """The code of what a loop sets or deletes, other than by adding to it."""
    nodes = walk(loop)
    added = {id(node.target) for node in nodes if _is_addition(node)}
    return {
        unparse(node)
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and id(node) not in added
    }


def _last_before(loop: ast.For, assigned: list[ast.Assign]) -> ast.Assign | None:
    return next((node for node in reversed(assigned) if node.lineno < loop.lineno), None)


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _called(call: ast.Call) -> str:
    return unparse(call.func).rpartition(".")[2]
