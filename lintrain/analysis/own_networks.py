"""Networks inside a network, as the code that runs them, and its methods that make a tensor on the CPU."""

from __future__ import annotations

import ast

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.plain_tensors import is_moved, is_tensor
from lintrain.analysis.script_text import networks_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

WITH_WEIGHTS = lazy_pattern(
    r"\bnn\.(Embedding|(Bil|L)inear|Conv\w+|LSTM|GRU|RNN|\w+Cell|Transformer\w*|Multihead\w+|\w*Norm\w*)\("
)
"""Layers whose weights move with their network."""

BEFORE_THE_MOVE = frozenset({"setup", "prepare_data", "configure_model", "configure_optimizers"})
"""Methods that Lightning calls while the network may still be on the CPU."""


def parts_with_weights(source: Source, owner: ast.ClassDef) -> frozenset[str]:
    """What a network calls to run itself or a part with weights: layers, sequences of them, networks of the file."""
    own = source.cached(_networks_with_weights)
    found = {"self"} if _is_lightning(owner) and owner.name in own else set[str]()
    for node in walk(owner):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_part = WITH_WEIGHTS.match(f"{unparse(node.value.func)}(") or _is_sequence(node.value)
            if is_part or (isinstance(node.value.func, ast.Name) and node.value.func.id in own):
                found |= {unparse(target) for target in node.targets if isinstance(target, ast.Attribute)}
    return frozenset(found)


def _is_sequence(call: ast.Call) -> bool:
    return last_name(call.func) == "Sequential" and WITH_WEIGHTS.search(unparse(call)) is not None


def _networks_with_weights(source: Source) -> frozenset[str]:
    """The names of the networks of a file that have layers with weights, or parts that have."""
    networks = {node.name: node for node in networks_of(source)}
    found = {name for name, node in networks.items() if WITH_WEIGHTS.search(unparse(node))}
    while True:
        around = {
            name
            for name, node in networks.items()
            if name not in found
            and any(isinstance(each, ast.Call) and unparse(each.func) in found for each in walk(node))
        }
        if not around:
            return frozenset(found)
        found |= around


def _is_lightning(owner: ast.ClassDef) -> bool:
    return any(unparse(base).endswith("LightningModule") for base in owner.bases)


def is_before_the_move(owner: ast.ClassDef, method: ast.FunctionDef) -> bool:
    """Whether Lightning calls a method of a module while its weights may still be on the CPU."""
    return _is_lightning(owner) and (method.name in BEFORE_THE_MOVE or method.name.endswith("_dataloader"))


def methods_on_cpu(owner: ast.ClassDef) -> dict[str, ast.expr]:
    """The methods of a network that do nothing but make a tensor on the CPU, as they are called, with what makes it."""
    found: dict[str, ast.expr] = {}
    for method in owner.body:
        match method:
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.Call() as made)], decorator_list=[]) if (
                is_tensor(made, ()) and not is_moved(made) and unparse(made).startswith("torch.")
            ):
                found[f"self.{name}"] = made
            case _:
                pass
    return found
