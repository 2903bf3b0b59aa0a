"""What the loops of a file bind to names: sums that are never reset, losses over their own function, lost tensors."""

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
    over, set_again = _items_of(batches.iter), _set_in(epochs)
    if over is None or set_again & {*_names_in(over), unparse(over)}:
        return
    lengths = {
        f"len({each})" for each in (unparse(over), f"{unparse(over)}.dataset", *_rows_of(over, epochs, assigned))
    }
    sums = {unparse(node.target): node for node in own_nodes(batches) if _is_addition(node)}
    for division in (node for node in walk(epochs) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        total, count = unparse(_without_factor(division.left)), unparse(division.right)
        started = _last_before(epochs, assigned.get(total, []))
        counted = _last_before(epochs, assigned.get(count, []))
        is_length = count in lengths or (counted is not None and unparse(counted.value) in lengths)
        is_zero = started is not None and isinstance(started.value, ast.Constant) and started.value.value == 0
        if total in sums and total not in set_again and is_length and started is not None and is_zero:
            added = source.location(sums[total])
            yield LastingSum(source.location(division), source.location(started), added, total)


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
    """What a loop goes through, inside `enumerate` and progress bars; None if it is computed."""
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


def overwritten_losses(source: Source) -> Iterator[tuple[Location, str]]:
    """The calls of a loss function whose result a loop binds to the function's own name, with this name."""
    if not any(map(_binds_its_function, source.nodes_of(ast.Assign))):
        return
    for loop in source.nodes_of(ast.For, ast.While):
        for node in own_nodes(loop):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if (
                    _binds_its_function(node) and _is_loss_in(loop, name) and _stored_in(loop, name) == 1
                ):
                    yield source.location(call), name
                case _:
                    pass


def _binds_its_function(node: ast.Assign) -> bool:
    """Whether a statement binds what a function returns to the function's own name."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=called))):
            return name == called
        case _:
            return False


def _is_loss_in(loop: ast.AST, name: str) -> bool:
    """Whether a loop computes gradients of what a name holds."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "backward" and unparse(node.value) == name
        for node in walk(loop)
    )


def _stored_in(loop: ast.AST, name: str) -> int:
    nodes = (node for node in walk(loop) if isinstance(node, ast.Name) and node.id == name)
    return sum(isinstance(node.ctx, ast.Store) for node in nodes)


@dataclass(frozen=True, slots=True)
class UnreadResult:
    """A name that gets what a method made of a batch and that nothing reads, while the batch itself is read later."""

    location: Location
    name: str
    batch: str
    method: str


def unread_results(source: Source) -> Iterator[UnreadResult]:
    """The results of methods of a batch that a training loop binds to names that no code reads."""
    for loop in source.nodes_of(ast.For):
        if not source.once(_trains, loop):
            continue
        batch = {node.id for node in walk(loop.target) if isinstance(node, ast.Name)}
        for node in own_nodes(loop):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=given), attr=method)),
                ) if (
                    given in batch
                    and name != "_"
                    and _is_read_after(loop, given, node.lineno)
                    and not _is_read(source, name)
                ):
                    yield UnreadResult(source.location(node), name, given, method)
                case _:
                    pass


ACTIVATIONS = frozenset({"relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "dropout"})
"""Functions of torch, whose layers have the same names without the underscore in capitals."""


def unread_activations(source: Source) -> Iterator[UnreadResult]:
    """The activations of a `forward` that are bound to names that no code reads, while their input is read later."""
    for owner in source.nodes_of(ast.ClassDef):
        for forward in owner.body:
            if not isinstance(forward, ast.FunctionDef) or forward.name != "forward":
                continue
            for node in own_nodes(forward):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=given), *_]) as call):
                        is_lost = name != given and name.strip("_") and not _is_loaded(forward, name)
                        if is_lost and _activates(source, owner, call) and _is_read_after(forward, given, node.lineno):
                            yield UnreadResult(source.location(node), name, given, _called(call))
                    case _:
                        pass


def drops_calls(source: Source) -> bool:
    """Whether a `forward`, or a `call` of Keras, has a call of a layer as a statement of its own: `self.norm(x)`."""
    forwards = (
        each
        for owner in source.nodes_of(ast.ClassDef)
        for each in owner.body
        if isinstance(each, ast.FunctionDef) and each.name in {"forward", "call"}
    )
    return any(_is_bare_call(node) for forward in forwards for node in own_nodes(forward))


def _is_bare_call(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Attribute(value=owner)), args=[ast.Name()])):
            return unparse(owner) == "self"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner), args=[ast.Name(), *_])):
            return unparse(owner) in {"self", "F", "torch", "nn.functional", "torch.nn.functional"}
        case _:
            return False


def _activation_layers(owner: ast.ClassDef) -> frozenset[str]:
    """The attributes of a network that are activations or dropout, and work on a copy."""
    made = (node for node in walk(owner) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    return frozenset(
        node.targets[0].attr
        for node in made
        if isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and _called(node.value).lower() in {name.replace("_", "") for name in ACTIVATIONS}
        and "inplace" not in unparse(node.value)
        and not (_called(node.value).lower() == "relu" and node.value.args)
    )


def _activates(source: Source, network: ast.ClassDef, call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in source.once(_activation_layers, network)
        case ast.Attribute(value=owner, attr=name):
            is_torch = unparse(owner) in {"F", "torch", "nn.functional", "torch.nn.functional"}
            return is_torch and name in ACTIVATIONS and "inplace" not in unparse(call)
        case _:
            return False


def _is_loaded(function: ast.FunctionDef, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)
        for node in walk(function)
    )


def _is_read(source: Source, name: str) -> bool:
    return any(node.id == name and isinstance(node.ctx, ast.Load) for node in source.nodes_of(ast.Name))


def _trains(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in walk(loop))


def _is_read_after(loop: ast.AST, name: str, line: int) -> bool:
    names = (node for node in walk(loop) if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Load) and node.lineno > line for node in names)


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _called(call: ast.Call) -> str:
    return unparse(call.func).rpartition(".")[2]
