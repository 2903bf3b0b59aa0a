"""What operations do to the shape of a tensor, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.pipeline.values.python import Value, literal
from lintrain.pipeline.values.tensors import Shape

ANY = Shape()
"""A shape of which nothing is known."""


def integer(value: Value) -> int | None:
    """The whole number that a value certainly is, else None."""
    plain = literal(value)
    return plain if isinstance(plain, int) and not isinstance(plain, bool) else None


def _axis(shape: Shape, given: Value) -> int | None:
    """An axis counted from the end (-1 is the last) where it is one of the known sizes, else None."""
    axis = integer(given)
    if axis is None:
        return None
    if axis >= 0:
        axis = axis - len(shape.sizes) if not shape.is_open else 0
    return axis if -len(shape.sizes) <= axis < 0 else None


def _without(sizes: tuple[int | None, ...], axis: int) -> tuple[int | None, ...]:
    position = len(sizes) + axis
    return (*sizes[:position], *sizes[position + 1 :])


def squeezed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`squeeze()` drops every axis of size 1; sizes that are not known are taken to be larger."""
    if not arguments:
        return Shape(tuple(size for size in shape.sizes if size != 1), shape.is_open)
    axis = _axis(shape, arguments[0])
    if axis is None or shape.sizes[axis] is None:
        return ANY
    return shape if shape.sizes[axis] != 1 else Shape(_without(shape.sizes, axis), shape.is_open)


def unsqueezed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`unsqueeze(axis)` puts an axis of size 1 in."""
    axis = integer(arguments[0]) if arguments else None
    if axis is None:
        return ANY
    known_from_front = -1 if shape.is_open else axis
    position = len(shape.sizes) + axis + 1 if axis < 0 else known_from_front
    if not 0 <= position <= len(shape.sizes):
        return ANY
    return Shape((*shape.sizes[:position], 1, *shape.sizes[position:]), shape.is_open)


def viewed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`view` and `reshape`: as many axes as sizes are given."""
    sizes = list(arguments)
    if len(sizes) == 1 and isinstance(sizes[0], SequenceValue):
        if not sizes[0].is_complete:
            return ANY
        sizes = sizes[0].items
    elif len(sizes) == 1 and integer(sizes[0]) is None:
        return ANY
    return Shape(tuple(_size(size) for size in sizes), False) if sizes else ANY


def _size(value: Value) -> int | None:
    size = integer(value)
    return None if size is None or size < 0 else size


def flattened(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`flatten()` leaves one axis, `flatten(1)` two."""
    if not arguments:
        return Shape((None,), False)
    start = integer(arguments[0])
    if len(arguments) == 1 and start is not None and start >= 0 and (shape.is_open or len(shape.sizes) > start):
        return Shape((None,) * (start + 1), False)
    return ANY


def transposed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`transpose(a, b)` swaps two axes."""
    axes = [_axis(shape, argument) for argument in arguments]
    known = [axis for axis in axes if axis is not None]
    if len(known) != 2 or len(axes) != 2:
        return ANY if shape.is_open else Shape((None,) * len(shape.sizes), False)
    sizes = list(shape.sizes)
    sizes[known[0]], sizes[known[1]] = sizes[known[1]], sizes[known[0]]
    return Shape(tuple(sizes), shape.is_open)


def permuted(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`permute(0, 2, 1)` reorders the axes."""
    axes = list(arguments)
    if len(axes) == 1 and isinstance(axes[0], SequenceValue):
        axes = axes[0].items
    numbers = [integer(axis) for axis in axes]
    order = [number for number in numbers if number is not None]
    if shape.is_open or len(order) != len(shape.sizes) or len(order) != len(numbers):
        return Shape((None,) * len(axes), False) if axes else ANY
    inside = all(-len(order) <= axis < len(order) for axis in order)
    return Shape(tuple(shape.sizes[axis] for axis in order), False) if inside else ANY


def reduced(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`mean()` leaves a number, `mean(1)` one axis less."""
    if not arguments:
        return Shape((), False)
    axis = _axis(shape, arguments[0])
    return Shape(_without(shape.sizes, axis), shape.is_open) if axis is not None and len(arguments) == 1 else ANY


def subscripted(shape: Shape, keys: Sequence[str]) -> Shape:
    """`x[…]` by the kinds of its keys: `axis` takes one away, `slice` keeps it, `new` adds one."""
    taken = sum(kind != "new" for kind in keys)
    if shape.is_open or taken > len(shape.sizes) or "other" in keys:
        return ANY
    left = list(shape.sizes)
    sizes: list[int | None] = []
    for kind in keys:
        if kind == "new":
            sizes.append(1)
            continue
        left.pop(0)
        if kind == "slice":
            sizes.append(None)
    return Shape((*sizes, *left), False)


def broadcast(one: Shape, other: Shape) -> Shape:
    """The shape of two tensors put together item by item, where they are alike or one of them is a number."""
    if one == other or other.rank == 0:
        return one
    return other if one.rank == 0 else ANY


def multiplied(one: Shape, other: Shape) -> Shape:
    """`one @ other`, for rows of numbers and matrices."""
    match (one.rank, other.rank):
        case (1, 1):
            return Shape((), False)
        case (int() as rank, 1) if rank > 1:
            return Shape(one.sizes[:-1], False)
        case (1, 2):
            return Shape(other.sizes[1:], False)
        case (int() as rank, 2) if rank > 1:
            return Shape((*one.sizes[:-1], other.sizes[1]), False)
        case _:
            return ANY


def resized_last(shape: Shape, size: int | None) -> Shape:
    """The same axes with another size of the last one."""
    return Shape((*shape.sizes[:-1], size), shape.is_open)


Reshape = Callable[[Shape, Sequence[Value]], Shape]

RESHAPES: dict[str, Reshape] = {
    "squeeze": squeezed,
    "unsqueeze": unsqueezed,
    "view": viewed,
    "reshape": viewed,
    "flatten": flattened,
    "ravel": flattened,
    "transpose": transposed,
    "swapaxes": transposed,
    "permute": permuted,
    "mean": reduced,
    "sum": reduced,
    "argmax": reduced,
}
"""What methods and functions of torch do to a shape, by their names; the arguments are those after the tensor."""
