"""Passes of a pretrained network that no optimizer trains, on the rows of a batch, with autograd on.

The autoencoder of a diffusion model and the encoder of its texts only prepare the inputs of the network that learns.
Their parameters require gradients after `from_pretrained`, so their graph is kept until the backward pass of the other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis import loss_terms
from lintrain.model.location import Location
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OFF = lazy_pattern(r"no_grad|inference_mode|set_grad_enabled")

MODES = frozenset({"eval", "to", "cuda", "half", "float", "bfloat16"})
READS = MODES | {
    "config",
    "encode",
    "forward",
    "decode",
    "dtype",
    "device",
    "train",
    "get_image_features",
    "get_text_features",
}
"""What code may ask of such a network without training it."""

TRAINS = lazy_pattern(r"\.backward\(")
DERIVES = frozenset({"to", "cuda", "float", "half", "long", "unsqueeze", "squeeze", "view", "reshape", "permute"})


@dataclass(frozen=True, slots=True)
class UntrainedPass:
    """A pass in a training loop of a network that nothing trains: where, its code, and where the network is loaded."""

    location: Location
    network: str
    loaded: Location


def untrained_passes(source: Source) -> Iterator[UntrainedPass]:
    """The passes of loaded networks on the rows of a loop that trains another one."""
    if "from_pretrained(" not in source.text or not source.contains(TRAINS):
        return
    loaded = [(made, name) for made in source.nodes_of(ast.Assign) if (name := _loaded(made))]
    if not loaded:
        return
    parents: Mapping[int, ast.AST] = {id(child): node for node in source.nodes for child in children(node)}
    for made, name in loaded:
        if _may_train(source, parents, made, name):
            continue
        for loop in source.nodes_of(ast.For):
            if _learns(source, loop):
                yield from _in_loop(source, parents, loop, made, name)


def _loaded(made: ast.Assign) -> str:
    """The name of a network that `from_pretrained` gives, on any device; empty for tokenizers and others."""
    match made:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as bound], value=value):
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MODES:
                value = value.func.value
            match value:
                case ast.Call(func=ast.Attribute(value=cls, attr="from_pretrained")):
                    return unparse(bound) if NETWORKS.search(unparse(cls)) else ""
                case _:
                    return ""
        case _:
            return ""


NETWORKS = lazy_pattern(r"Autoencoder\w+$|Model(?:WithProjection)?$|VQModel$|EncoderModel$")


def _may_train(source: Source, parents: Mapping[int, ast.AST], made: ast.Assign, name: str) -> bool:
    """Whether some code freezes, trains, wraps or hands on a network, or another statement binds its name."""
    for node in source.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or unparse(node) != name or node is made.targets[0]:
            continue
        parent = parents.get(id(node))
        if isinstance(parent, ast.Call) and parent.func is node:
            continue
        if not isinstance(parent, ast.Attribute) or parent.attr not in READS:
            return True
    return False


def _learns(source: Source, loop: ast.For) -> bool:
    code = source.code(source.location(loop))
    return TRAINS.search(code) is not None and "accelerate" not in source.text


def _in_loop(
    source: Source, parents: Mapping[int, ast.AST], loop: ast.For, made: ast.Assign, name: str
) -> Iterator[UntrainedPass]:
    rows = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    for call in (node for statement in loop.body for node in walk(statement)):
        match call:
            case ast.Call(func=func, args=[given, *_]) if unparse(func) in {name, f"{name}.encode", f"{name}.forward"}:
                pass
            case _:
                continue
        if _is_of_rows(source, given, rows) and not _is_off(parents, call):
            yield UntrainedPass(source.location(call), name, source.location(made))
            return


def _is_of_rows(source: Source, node: ast.expr, rows: set[str], steps: int = 4) -> bool:
    """Whether an expression is a part of what a loop goes through, and no output of a network that learns."""
    match node:
        case ast.Name(id=name):
            made = next(iter(loss_terms.definitions(source, node)), None)
            if made is None or made[0] is node:
                return name in rows
            if name in rows and made[2] is None:
                return _derives(made[0])
            return steps > 0 and made[2] is None and _is_of_rows(source, made[0], rows, steps - 1)
        case ast.Subscript(value=inner):
            return _is_of_rows(source, inner, rows, steps)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in DERIVES:
            return _is_of_rows(source, inner, rows, steps)
        case _:
            return False


def _derives(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name in DERIVES and _derives(inner)
        case ast.Subscript(value=inner):
            return _derives(inner)
        case _:
            return isinstance(node, ast.Name)


def _is_off(parents: Mapping[int, ast.AST], node: ast.AST) -> bool:
    above = parents.get(id(node))
    while above is not None:
        if isinstance(above, ast.With) and any(OFF.search(unparse(item.context_expr)) for item in above.items):
            return True
        if isinstance(above, ast.FunctionDef) and any(OFF.search(unparse(each)) for each in above.decorator_list):
            return True
        above = parents.get(id(above))
    return False
