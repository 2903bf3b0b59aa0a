"""Choices along axis 0 among probabilities that a softmax along axis 1 gave: they are rows, and are used as classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.class_axes import SOFTMAXES, axis_of_softmax
from lintrain.analysis.class_choices import axis_of, followed, is_choice, scores_of, values_of
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OF_CLASSES = lazy_pattern(r"(?i)pred|label|class|y_hat|target|correct|acc|hits")
OF_ROWS = lazy_pattern(r"(?i)idx|index|indices|sample|rows?\b|best|proto|exemplar|nearest|anchor|select")


@dataclass(frozen=True, slots=True)
class ChosenProbabilities:
    """A choice of rows, and the softmax that shows where the classes are."""

    location: Location
    softmax: Location


def chosen_probabilities(source: Source) -> Iterator[ChosenProbabilities]:
    """The choices in a file along the axis of the rows, by a name or a comparison for classes."""
    if not source.contains(r"argmax\(") or "softmax" not in source.text:
        return
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        nodes = own_nodes(scope)
        choices = [node for node in nodes if isinstance(node, ast.Call) and is_choice(node) and axis_of(node) == 0]
        values = values_of(nodes) if choices else dict[str, Sequence[ast.expr]]()
        for choice in choices:
            made = followed(scores_of(choice), values)
            is_softmax = isinstance(made, ast.Call) and last_name(made.func) in SOFTMAXES
            if is_softmax and isinstance(made, ast.Call) and axis_of_softmax(made) == 1 and _are_classes(nodes, choice):
                yield ChosenProbabilities(source.location(choice), source.location(made))


def _are_classes(nodes: Sequence[ast.AST], choice: ast.Call) -> bool:
    """Whether what is chosen gets the name of classes, is compared, or is the target of a loss."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) > 1 and node.args[1] is choice]
    if calls:
        return last_name(calls[0].func) in {"cross_entropy", "nll_loss", "criterion"}
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
                if any(part is choice for part in walk(value)):
                    name = unparse(target)
                    return OF_CLASSES.search(name) is not None and OF_ROWS.search(name) is None
            case _:
                pass
    return False
