"""What the loops of a file bind to names: losses over their own function, lost tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


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


def _called(call: ast.Call) -> str:
    return unparse(call.func).rpartition(".")[2]
