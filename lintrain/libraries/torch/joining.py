"""Several tensors put together: `torch.cat` along an axis that they have, `torch.stack` along a new one."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.shapes import ANY, integer, product, unsqueezed
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Absent, Constant, Sequence, Value
from lintrain.pipeline.values.tensors import Operation, Shape


def joined(call: Call) -> Tensor | None:
    """What `torch.cat` and `torch.stack` give; None where the tensors are not known."""
    given = call.value("tensors", 0)
    items = [item for item in given.items if isinstance(item, Tensor)] if isinstance(given, Sequence) else []
    if not isinstance(given, Sequence) or not items or len(items) != len(given.items):
        return None
    name = call.path.rpartition(".")[2]
    shape = _shape(call, [item.shape for item in items], is_stack=name == "stack") if given.is_complete else ANY
    kinds = {item.kind for item in items}
    cuts = [item.cut for item in items if item.cut]
    return Tensor(
        model=items[0].model,
        text=call.text,
        made=Operation(name, call.location, call.text),
        shape=shape,
        kind=items[0].kind if len(kinds) == 1 else "",
        cut=cuts[0] if len(cuts) == len(items) else None,
        origin=call.location,
    )


def _shape(call: Call, shapes: list[Shape], *, is_stack: bool) -> Shape:
    given = call.value("dim", 1)
    axis: Value = Constant(0) if isinstance(given, Absent) else given
    ranks = {shape.rank for shape in shapes}
    number = integer(axis)
    if call.is_open or number is None or len(ranks) != 1 or None in ranks:
        return ANY
    if is_stack:
        common = Shape(
            tuple(_common([shape.sizes[index] for shape in shapes]) for index in range(len(shapes[0].sizes))), False
        )
        wider = unsqueezed(common, [axis])
        at = number if number >= 0 else number + len(wider.sizes)
        return Shape((*wider.sizes[:at], len(shapes), *wider.sizes[at + 1 :]), False) if wider.sizes else ANY
    return _along(shapes, number)


def _along(shapes: list[Shape], number: int) -> Shape:
    rank = len(shapes[0].sizes)
    at = number + rank if number < 0 else number
    if not 0 <= at < rank:
        return ANY
    sizes = [_common([shape.sizes[axis] for shape in shapes]) for axis in range(rank)]
    lengths = [shape.sizes[at] for shape in shapes]
    sizes[at] = sum(length or 0 for length in lengths) if product(lengths) is not None else None
    return Shape(tuple(sizes), False)


def _common(sizes: list[int | None]) -> int | None:
    """The size that several tensors have in common: that of any of which it is known."""
    return next((size for size in sizes if size is not None), None)
