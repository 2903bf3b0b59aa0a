"""The axes that functions of einops and `einsum` leave, which their patterns name: `b c h w -> b (h w) c`."""

from __future__ import annotations

import re
from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.interpreter.shapes import ANY, integer
from lintrain.libraries.torch.tensors import of_unknown
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Value, text_of
from lintrain.pipeline.values.tensors import Operation, Shape
from lintrain.startup.lazy_pattern import lazy_pattern

AXIS = lazy_pattern(r"\([^()]*\)|\.\.\.|\w+")
"""One axis of a pattern: a name, a number, several that are put into one, or any number of others."""


@function("einops.rearrange", "einops.repeat", "einops.reduce")
def _rearrange(call: Call) -> Value:
    """The same numbers, or their means and sums, under the axes on the right of the arrow."""
    given, pattern = call.value("tensor", 0), text_of(call.value("pattern", 1))
    name = call.path.rpartition(".")[2]
    made = given if isinstance(given, Tensor) else of_unknown(call, given)
    shape = _shape_after(call, pattern, made.shape) if pattern else ANY
    # A list of tensors is a further axis, which the pattern names as well.
    here = Operation(name, call.location, call.text) if name == "reduce" else made.made
    return replace(made, shape=shape, made=here, is_reshaped=True, text=call.text, origin=call.location)


def _shape_after(call: Call, pattern: str, before: Shape) -> Shape:
    left, arrow, right = pattern.partition("->")
    names, axes = AXIS.findall(left), AXIS.findall(right)
    if not arrow or "..." in axes[1:] or any("..." in axis and axis != "..." for axis in axes):
        return ANY
    sizes: dict[str, int | None] = dict(zip(names, before.sizes, strict=False)) if _are_all(names, before) else {}
    sizes.update({name: integer(each.value) for name, each in call.keywords.items()})
    known = [_size(axis, sizes) for axis in axes if axis != "..."]
    # `b c h w -> (b c) h w` has a first axis of another name: no longer the rows alone.
    is_first = before.rows_first and bool(axes) and axes[:1] == names[:1]
    return Shape(tuple(known), "..." in axes, rows_first=is_first)


def _are_all(names: list[str], before: Shape) -> bool:
    return "..." not in names and before.rank == len(names)


def _size(axis: str, sizes: dict[str, int | None]) -> int | None:
    return int(axis) if re.fullmatch(r"\d{1,9}", axis) else 1 if axis == "()" else sizes.get(axis)
