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

WIDE = lazy_pattern(
    r"(?i)(?:^|[._])(?:d_)?(?:hidden|ffn?|mlp|inner|intermediate|feed_?forward)(?:[._]|$)|\b4 \*|\* 4\b"
)
"""Sizes of the inner layer of a feed-forward block, which is wider than its sides."""

ACTIVATION = lazy_pattern(r"(?:ReLU6?|GELU|ELU|SELU|SiLU|Mish|Tanh|Sigmoid|Softplus|PReLU|CELU|Hardswish)$")


def stacked_linears(source: Source) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The pairs of linear layers without an activation between them, in a stack that has activations elsewhere."""
    for call in calls_of(source, ("Sequential",)):
        has_others = any(isinstance(each, ast.Call) and ACTIVATION.search(unparse(each.func)) for each in call.args)
        for one, other in pairwise(call.args):
            first, second = _sizes(one), _sizes(other)
            if not first or not second or first[1] != second[0]:
                continue
            if _is_feed_forward(first, second) or (has_others and not _is_narrow(first, second)):
                assert isinstance(one, ast.Call)
                assert isinstance(other, ast.Call)
                yield one, other


def _sizes(layer: ast.expr) -> tuple[str, str] | None:
    """The code of the sizes of a linear layer with a bias."""
    if not isinstance(layer, ast.Call) or last_name(layer.func) != "Linear" or layer.keywords or len(layer.args) != 2:
        return None
    return unparse(layer.args[0]), unparse(layer.args[1])


def _is_feed_forward(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether two layers go from one size to a wider one and back: without an activation they are one matrix."""
    middle = first[1]
    return first[0] == second[1] and WIDE.search(middle) is not None and NARROW.search(middle) is None


def _is_narrow(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether what is between two layers may be smaller than both of their sides."""
    sides, middle = {first[0], second[1]}, first[1]
    if middle in sides:
        return False
    if middle.isdigit() and any(side.isdigit() and int(side) <= int(middle) for side in sides):
        return False
    return not middle.startswith(("hidden", "self.hidden")) or NARROW.search(middle) is not None
