"""Layers that a `forward` or a `call` of Keras calls as a statement of its own, in a chain that changes one tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WORKS_IN_PLACE = lazy_pattern(r"inplace\s*=\s*(?!False)|(?:ReLU6?|ELU|SiLU|GELU|Dropout\w*)\((?:[^()]*,\s*)?True")
LAYER_NAME = lazy_pattern(
    r"(?:^|_)(?:bn|norm|conv|fc|linear|proj|pool|layer|block|dense|down|trans|head|encoder|stage)s?(?:\w*\d\w*)?(?:_|$)|"
    r"(?:bn|norm|conv|fc|pool|layer|block|stage|layers)\d*$",
    re.IGNORECASE,
)
"""Attributes that are layers by their names, whatever makes them."""

ACTIVATION_NAME = lazy_pattern(r"relu|act|elu|drop", re.IGNORECASE)
"""Attributes that may work in place."""


PASSES = frozenset({"forward", "call"})
"""The methods of torch and of Keras that compute what a network gives."""

OF_KERAS = lazy_pattern(r"(?:(?:tf|tensorflow)\.)?(?:keras\.)?layers\.[A-Z]\w*")


@dataclass(frozen=True, slots=True)
class DroppedLayer:
    """A call of a layer whose result nothing takes, and the name of the tensor that the next layer reads unchanged."""

    call: ast.Call
    layer: str
    tensor: str


def dropped_layers(source: Source) -> Iterator[DroppedLayer]:
    """The layers in the passes of the networks of a file whose results are dropped."""
    for owner in source.nodes_of(ast.ClassDef):
        for forward in owner.body:
            if isinstance(forward, ast.FunctionDef) and forward.name in PASSES:
                yield from _in_forward(source, owner, own_nodes(forward))


def _in_forward(source: Source, owner: ast.ClassDef, nodes: Sequence[ast.AST]) -> Iterator[DroppedLayer]:
    bare = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    calls = [(call, name, tensor) for call in bare for name, tensor in _layer_call(call)]
    if not calls:
        return
    if any(isinstance(node, ast.Attribute) and "hook" in node.attr for node in nodes):
        return  # which keep what the layers give
    chained = {tensor for node in nodes for tensor in _chained(node)}
    for call, name, tensor in calls:
        reads = (node for node in nodes if isinstance(node, ast.Name) and node.id == tensor)
        is_read = any(isinstance(read.ctx, ast.Load) and read.lineno > call.lineno for read in reads)
        if tensor in chained and is_read and _only_gives(source, owner, name):
            yield DroppedLayer(call, f"self.{name}", tensor)


def _layer_call(node: ast.expr) -> Iterator[tuple[str, str]]:
    """The attribute and the tensor of `self.layer(x)` and `self.layers[i](x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=[ast.Name(id=tensor)]):
            yield name, tensor
        case ast.Call(
            func=ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name)), args=[ast.Name(id=tensor)]
        ):
            yield name, tensor
        case _:
            pass


def _chained(node: ast.AST) -> Iterator[str]:
    """The tensor that a statement replaces by what a layer gives for it: `x = self.norm(x)`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield from (tensor for _, tensor in _layer_call(value) if tensor == name)
        case _:
            pass


def _only_gives(source: Source, owner: ast.ClassDef, name: str) -> bool:
    """Whether a layer certainly gives a new tensor, and its call has no other use."""
    made = [value for value in _values_of(owner, name) if not (isinstance(value, ast.Constant) and value.value is None)]
    codes = [unparse(value) for value in made]
    if not made or any(WORKS_IN_PLACE.search(code) for code in codes):
        return False
    return all(_makes_layer(source, value) for value in made) or (
        LAYER_NAME.search(name) is not None and not ACTIVATION_NAME.search(name)
    )


def _values_of(owner: ast.ClassDef, name: str) -> list[ast.expr]:
    """What the methods of a class give an attribute."""
    given = (node for node in walk(owner) if isinstance(node, ast.Assign))
    return [each.value for each in given if any(unparse(target) == f"self.{name}" for target in each.targets)]


def _makes_layer(source: Source, value: ast.expr) -> bool:
    """Whether a value is a layer of torch, or of a class of this file whose `forward` only returns a result."""
    if not isinstance(value, ast.Call):
        return False
    called = unparse(value.func)
    if called.startswith(("nn.", "torch.nn.")):
        return not called.endswith(("Loss", "Parameter", "ReLU", "Module"))
    if OF_KERAS.fullmatch(called):
        return True
    cls = next((node for node in source.nodes_of(ast.ClassDef) if node.name == last_name(value.func)), None)
    forward = next(
        (each for each in (cls.body if cls else ()) if isinstance(each, ast.FunctionDef) and each.name in PASSES),
        None,
    )
    if forward is None:
        return False
    nodes = own_nodes(forward)
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in nodes)
    stores = any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in nodes)
    return returns and not stores
