"""Focal losses whose factor is computed from the mean of the losses, so that all rows have the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import scopes_naming
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PROBABILITY = lazy_pattern(r"exp\( *-|\(-\w+\)\.exp\(\)")

FUNCTIONS = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"})
OBJECTS = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"})


@dataclass(frozen=True, slots=True)
class AveragedFocalLoss:
    """Where a mean loss is computed, its name, and the probability that is computed from it."""

    location: Location
    name: str
    probability: Location


def averaged_focal_losses(source: Source) -> Iterator[AveragedFocalLoss]:
    """The losses of a file that are averaged, and whose exponential is the probability in a focal factor."""
    if not source.contains(PROBABILITY):
        return
    for scope in scopes_naming(source, "exp"):
        nodes = own_nodes(scope)
        calls = (node for node in nodes if isinstance(node, ast.Call))
        probabilities = {name: call for call in calls if (name := _loss_of(call))}
        if not probabilities or not any(map(_is_factor, nodes)):
            continue
        for name, probability in probabilities.items():
            values = [
                each.value for each in nodes if isinstance(each, ast.Assign) and name in map(unparse, each.targets)
            ]
            if len(values) == 1 and isinstance(values[0], ast.Call) and _is_mean_loss(source, values[0]):
                yield AveragedFocalLoss(source.location(values[0]), name, source.location(probability))


def _loss_of(node: ast.AST) -> str:
    """The name of the loss in `torch.exp(-loss)` and `(-loss).exp()`; empty for any other code."""
    match node:
        case ast.Call(func=ast.Attribute(attr="exp"), args=[ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name))]):
            return name
        case ast.Call(
            func=ast.Attribute(value=ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)), attr="exp"), args=[]
        ):
            return name
        case _:
            return ""


def _is_factor(node: ast.AST) -> bool:
    """Whether code is a power of one minus a probability: `(1 - p) ** gamma`, or `torch.pow(1 - p, gamma)`."""
    match node:
        case ast.BinOp(left=base, op=ast.Pow()):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="pow"), args=[base, _]):
            pass
        case ast.Call(func=ast.Attribute(value=base, attr="pow"), args=[_]):
            pass
        case _:
            return False
    return isinstance(base, ast.BinOp) and isinstance(base.op, ast.Sub) and unparse(base.left) in {"1", "1.0"}


def _is_mean_loss(source: Source, call: ast.Call) -> bool:
    """Whether a call gives the mean of a loss over all rows."""
    if last_name(call.func) in FUNCTIONS:
        return _averages(call)
    made = [call.func] if isinstance(call.func, ast.Call) else loss_terms.assigned(source, unparse(call.func))
    return bool(made) and all(
        isinstance(each, ast.Call) and last_name(each.func) in OBJECTS and _averages(each) for each in made
    )


def _averages(call: ast.Call) -> bool:
    named = {each.arg: each.value for each in call.keywords}
    if None in named or {"reduce", "size_average"} & named.keys():
        return False
    return "reduction" not in named or unparse(named["reduction"]) == "'mean'"
