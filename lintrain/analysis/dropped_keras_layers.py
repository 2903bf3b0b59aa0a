"""Layers of Keras that a statement builds, calls and drops: `Dropout(0.5)(x)` in place of `x = Dropout(0.5)(x)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import imports_of
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

OF_LAYERS = lazy_pattern(r"(?:\w+\.)*layers\.[A-Z]\w*")
"""A class of `keras.layers` by the name of its module, under whatever name Keras is imported."""

USUAL = frozenset(
    {"Activation", "BatchNormalization", "Dense", "Dropout", "Flatten", "LeakyReLU", "MaxPooling2D", "ReLU"}
)
"""Layers that `from keras.layers import *` gives."""


def dropped_keras_layers(source: Source) -> Iterator[ast.Call]:
    """The statements that apply a new layer to a tensor; neither the layer nor what it gives can be used later."""
    imported: frozenset[str] | None = None
    for node in source.nodes_of(ast.Expr) if "keras" in source.text else ():
        call = node.value
        made = call.func if isinstance(call, ast.Call) and call.args else None
        if not isinstance(made, ast.Call) or not isinstance(call, ast.Call) or not last_name(made.func)[:1].isupper():
            continue
        if imported is None:
            imported = source.cached(_imported_layers)
        name = unparse(made.func)
        is_named = bool({name, name.partition(".")[0]} & imported) or ("*" in imported and name in USUAL)
        if (is_named or OF_LAYERS.fullmatch(name) is not None) and not source.is_displayed(source.location(node)):
            yield call


def _imported_layers(source: Source) -> frozenset[str]:
    """The names that a file imports of layers of Keras: `Dropout`, and `L` of `from keras import layers as L`."""
    found = (each for each in imports_of(source) if "keras" in each.module)
    return frozenset(
        each.alias or each.name for each in found if each.name and "keras.layers" in f"{each.module}.{each.name}"
    )
