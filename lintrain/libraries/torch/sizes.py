"""The sizes of a tensor's axes in the hands of code: `x.shape`, `x.size(0)`, and pools as functions."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.layer_shapes import OPEN, output_of
from lintrain.interpreter.shapes import integer
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Sequence, Unknown, Value
from lintrain.pipeline.values.tensors import AxisSize, shape_of


def sizes_of(tensor: Tensor) -> Sequence | None:
    """The sizes of all axes; None if it is not known how many there are."""
    if tensor.shape.rank is None:
        return None
    return Sequence([_size_of(size, axis) for axis, size in enumerate(tensor.shape.sizes)], "tuple")


def _size_of(size: int | None, axis: int) -> Value:
    return Constant(size) if size is not None and size >= 0 else AxisSize(name="size", axis=axis)


@method(Tensor, "size")
def _size(call: Call) -> Value:
    """`x.size()`, `x.size(0)`."""
    given = call.value("dim", 0)
    sizes = sizes_of(call.receiver) if isinstance(call.receiver, Tensor) else None
    if isinstance(given, Absent):
        return sizes or UNKNOWN
    axis = integer(given)
    if sizes is None or axis is None:
        # The first axis of a batch stays the same number, whatever the others are.
        return AxisSize(name="size", axis=0) if axis == 0 else UNKNOWN
    return sizes.items[axis] if -len(sizes.items) <= axis < len(sizes.items) else UNKNOWN


POOLS = {
    f"{name}_pool{axes}d": f"{kind}Pool{axes}d"
    for axes in (1, 2, 3)
    for name, kind in (
        ("max", "Max"), ("avg", "Avg"), ("adaptive_max", "AdaptiveMax"), ("adaptive_avg", "AdaptiveAvg"),
    )
}  # fmt: skip
"""Pools as functions, by the layers that do the same."""


@function(*(f"torch.nn.functional.{name}" for name in POOLS), "torch.max_pool1d", "torch.max_pool2d")
def _pool(call: Call) -> Value:
    """`F.max_pool2d(x, 2)`: what the layer gives that it is the function of."""
    given = call.value("input", 0)
    options = {str(index): argument.value for index, argument in enumerate(call.positional[1:])}
    options.update({name: argument.value for name, argument in call.keywords.items() if name != "input"})
    options.update({OPEN: UNKNOWN} if call.is_open else {})
    layer = Module(f"torch.nn.{POOLS[call.path.rpartition('.')[2]]}", [], options, origin=call.location)
    before = given if isinstance(given, Tensor) else Tensor(shape=shape_of(given))
    shape = output_of(layer, before.shape)
    model = before.model if isinstance(given, Tensor) else Unknown()
    return Tensor(model=model, text=call.text, shape=shape, kind=before.kind, cut=before.cut, origin=call.location)
