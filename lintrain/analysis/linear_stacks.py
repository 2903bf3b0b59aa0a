"""Linear layers next to each other in one `Sequential`, whose sizes are known by their code alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from lintrain.analysis.built_layers import last_name
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

NARROW = lazy_pattern(r"(?i)rank|bottle|factor|latent|embed|code|(?:^|\W)[rkz](?:$|\W)|low")
"""Sizes of a layer that is narrow on purpose: two matrices in place of a large one."""

ACTIVATION = lazy_pattern(r"(?:ReLU6?|GELU|ELU|SELU|SiLU|Mish|Tanh|Sigmoid|Softplus|PReLU|CELU|Hardswish)$")


def stacked_linears(source: Source) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The pairs of linear layers without an activation between them, in a stack that has activations elsewhere."""
    for call in calls_of(source, ("Sequential",)):
        if not any(isinstance(each, ast.Call) and ACTIVATION.search(unparse(each.func)) for each in call.args):
            continue
        for one, other in pairwise(call.args):
            first, second = _sizes(one), _sizes(other)
            if first and second and first[1] == second[0] and not _is_narrow(first, second):
                assert isinstance(one, ast.Call)
                assert isinstance(other, ast.Call)
                yield one, other


def _sizes(layer: ast.expr) -> tuple[str, str] | None:
    """The code of the sizes of a linear layer with a bias."""
    if not isinstance(layer, ast.Call) or last_name(layer.func) != "Linear" or layer.keywords or len(layer.args) != 2:
        return None
    return unparse(layer.args[0]), unparse(layer.args[1])


def _is_narrow(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether what is between two layers may be smaller than both of their sides."""
    sides, middle = {first[0], second[1]}, first[1]
    if middle in sides:
        return False
    if middle.isdigit() and any(side.isdigit() and int(side) <= int(middle) for side in sides):
        return False
    return not middle.startswith(("hidden", "self.hidden")) or NARROW.search(middle) is not None
