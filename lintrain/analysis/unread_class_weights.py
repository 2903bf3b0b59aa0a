"""Weights of classes that a script computes and gives to no loss, so that the rare class counts as little as before."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.only_shown import is_only_shown
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WEIGHTS = lazy_pattern(
    r"^(?:pos|positive|class|cls|label|loss)_weights?(?:_t|_tensor)?$|^weights?_(?:per_class|tensor)$"
)
"""Names of the weights of classes."""

LOSSES = lazy_pattern(r"\b(?:BCELoss|BCEWithLogitsLoss|CrossEntropyLoss|NLLLoss|cross_entropy|binary_cross_entropy)\b")


@dataclass(frozen=True, slots=True)
class UnreadWeights:
    """The statement that computes weights of classes, and their name."""

    location: Location
    name: str


def unread_weights(source: Source) -> Iterator[UnreadWeights]:
    """The weights of classes that a function or the module computes, and only shows, next to a loss."""
    if not source.contains(LOSSES):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        if isinstance(scope, ast.FunctionDef) and LOSSES.search(unparse(scope)) is None:
            continue
        made = [each for each in nodes if isinstance(each, ast.Assign) and _name_of(each)]
        if not made:
            continue
        for statement in made:
            name = _name_of(statement)
            is_once = [_name_of(each) for each in made].count(name) == 1
            if is_once and is_only_shown(scope, name):
                yield UnreadWeights(source.location(statement), name)


def _name_of(statement: ast.Assign) -> str:
    """The name of weights that a statement computes; empty for plain numbers and None."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() | ast.BinOp()):
            return name if WEIGHTS.search(name) else ""
        case _:
            return ""
