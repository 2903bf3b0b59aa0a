"""What a categorical distribution is computed of: logits or probabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CATEGORICAL = lazy_pattern(r"\b(?:OneHot)?Categorical\(")
SOFTMAX, LINEAR = "softmax", "linear"

LIMITING = frozenset({"relu", "sigmoid", "tanh"})
"""Activations after which logits no longer have any size and sign."""


@dataclass(frozen=True, slots=True)
class WrongEnd:
    """A distribution that is given logits as probabilities, or the reverse; `last` is what computes them."""

    location: Location
    last: Location
    is_logits: bool


def wrong_ends(source: Source) -> Iterator[WrongEnd]:
    """The categorical distributions of a file that get the output of a network under the wrong name."""
    if not source.contains(CATEGORICAL):
        return
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) not in {"Categorical", "OneHotCategorical"}:
            continue
        named = {each.arg: each.value for each in call.keywords}
        given = call.args[0] if call.args else named.get("probs")
        logits = named.get("logits")
        for value, wrong in ((given, LINEAR), (logits, SOFTMAX)):
            end = _end_of(source, value, 8) if value is not None else None
            if end is not None and end[0] == wrong:
                yield WrongEnd(source.location(call), source.location(end[1]), wrong == LINEAR)


@dataclass(frozen=True, slots=True)
class LimitedLogits:
    """An activation at the end of a network, and the distribution that takes its output for logits."""

    activation: str
    location: Location
    distribution: str
    used: Location


def limited_logits(source: Source) -> Iterator[LimitedLogits]:
    """The activations of a file that end what a categorical distribution gets as logits."""
    for call in source.nodes_of(ast.Call) if source.contains(CATEGORICAL) else ():
        name = last_name(call.func)
        if name in {"Categorical", "OneHotCategorical"}:
            logits = next((each.value for each in call.keywords if each.arg == "logits"), None)
            end = _end_of(source, logits, 8) if logits is not None else None
            if end is not None and end[0] in LIMITING:
                yield LimitedLogits(end[0], source.location(end[1]), name, source.location(call))


def _end_of(source: Source, node: ast.expr, steps: int, position: int | None = None) -> tuple[str, ast.expr] | None:
    """Whether a tensor is the result of a softmax or of a linear layer, and where; None if it is not known."""
    if steps == 0:
        return None
    match node:
        case ast.Name():
            made = list(loss_terms.definitions(source, node))
            if made and made[0][2] is None and (len(made) == 1 or _is_always_run(source, made[0][0])):
                return _end_of(source, made[0][0], steps - 1, made[0][1])
            return None
        case ast.Call(func=function) if position is None and last_name(function) in {SOFTMAX, *LIMITING}:
            return last_name(function), node
        case ast.Call(func=ast.Call(func=made)) if last_name(made) == "Softmax":
            return SOFTMAX, node
        case ast.Call(func=ast.Name() | ast.Attribute() as function):
            return _end_of_network(source, node, unparse(function), steps, position)
        case _:
            return None


def _is_always_run(source: Source, value: ast.expr) -> bool:
    """Whether an assignment is in the body of a function itself, so that what was assigned before does not matter."""
    return any(value in [getattr(each, "value", None) for each in one.body] for one in source.nodes_of(ast.FunctionDef))


def _end_of_network(
    source: Source, call: ast.Call, name: str, steps: int, position: int | None
) -> tuple[str, ast.expr] | None:
    """What the network of a name ends with: a layer, a `Sequential`, or a class of the file."""
    made = loss_terms.assigned(source, name.removesuffix(".forward"))
    network = _without_device(made[0]) if len(made) == 1 else None
    if not isinstance(network, ast.Call):
        return None
    kind = last_name(network.func)
    if kind == "Sequential" and network.args and not isinstance(network.args[-1], ast.Starred):
        network = network.args[-1]
        kind = last_name(network.func) if isinstance(network, ast.Call) else ""
    if kind in {"Softmax", "Linear"}:
        return (SOFTMAX if kind == "Softmax" else LINEAR), call if position is None else network
    classes = [each for each in source.nodes_of(ast.ClassDef) if each.name == kind]
    forwards = [
        each for one in classes for each in one.body if isinstance(each, ast.FunctionDef) and each.name == "forward"
    ]
    values = [each.value for one in forwards for each in own_nodes(one) if isinstance(each, ast.Return)]
    value = values[0] if len(values) == len(classes) == 1 else None
    if position is not None:
        value = value.elts[position] if isinstance(value, ast.Tuple) and position < len(value.elts) else None
    return _end_of(source, value, steps - 1) if value is not None and not isinstance(value, ast.Tuple) else None


def _without_device(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "cuda" | "train" | "eval" | "double" | "float")):
            return _without_device(inner)
        case _:
            return node
