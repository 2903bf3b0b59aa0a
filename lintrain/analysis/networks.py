"""Networks in the text of a file: the layers that it builds."""

from __future__ import annotations

import ast

from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

SIZED = frozenset({"Linear", "LSTM", "GRU", "RNN", "Embedding", "MultiheadAttention", "LayerNorm"})
"""Layers that are built for a size; convolutions and batch norms come with their numbers of axes."""

MANY_AXES = ("Conv1d", "Conv2d", "Conv3d", "Transpose1d", "Transpose2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


MAY_BE_SIZED = lazy_pattern(
    r"\b(?:Linear|LSTM|GRU|RNN|Embedding|MultiheadAttention|LayerNorm|(?:Conv|ConvTranspose|BatchNorm)[123]d)\([^()\n]*\d"
)


def builds_sized_layers(source: Source) -> bool:
    """Whether a file builds two or more layers with sizes that are written as numbers."""
    # The text is searched first, since most files that import torch build no layer.
    return len(MAY_BE_SIZED.findall(source.text)) > 1 and _count_sized_layers(source) > 1


def _count_sized_layers(source: Source) -> int:
    return sum(_is_sized_layer(call) for call in source.nodes_of(ast.Call))


def _is_sized_layer(call: ast.Call) -> bool:
    callee = call.func
    name = callee.attr if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""
    if name not in SIZED and not name.endswith(MANY_AXES):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, int) for each in call.args for node in walk(each)
    )
