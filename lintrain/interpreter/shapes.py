"""What operations do to the shape of a tensor, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

from lintrain.pipeline.values.python import Absent, Slice, Value, literal
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.pipeline.values.tensors import AxisSize, Shape, Whole

MOST_AXES = 16
MOST_ENTRIES = 1 << 40
"""The largest size, and the largest number of axes, that are multiplied."""

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
        has_rows = shape.rows_first and shape.sizes[:1] != (1,)
        return Shape(tuple(size for size in shape.sizes if size != 1), shape.is_open, has_rows)
    axis = _axis(shape, arguments[0])
    if axis is None or shape.sizes[axis] is None:
        return ANY
    has_rows = shape.rows_first and axis != -len(shape.sizes)
    return shape if shape.sizes[axis] != 1 else Shape(_without(shape.sizes, axis), shape.is_open, has_rows)


def unsqueezed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`unsqueeze(axis)` puts an axis of size 1 in."""
    axis = integer(arguments[0]) if arguments else None
    if axis is None:
        return ANY
    known_from_front = -1 if shape.is_open else axis
    position = len(shape.sizes) + axis + 1 if axis < 0 else known_from_front
    if not 0 <= position <= len(shape.sizes):
        return ANY
    has_rows = shape.rows_first and position > 0
    return Shape((*shape.sizes[:position], 1, *shape.sizes[position:]), shape.is_open, has_rows)


def viewed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`view` and `reshape`: as many axes as sizes are given, and as many numbers as before."""
    sizes = sizes_given(arguments)
    if sizes is None:
        return ANY
    known = [_size(size) for size in sizes]
    rest = [index for index, size in enumerate(sizes) if integer(size) == -1]
    if len(rest) == 1:
        known[rest[0]] = _inferred(shape, sizes, known)
    return Shape(tuple(known), False, _keeps_rows(shape, sizes, known)) if known else ANY


def _keeps_rows(shape: Shape, sizes: Sequence[Value], known: Sequence[int | None]) -> bool:
    """Whether a view certainly leaves the rows of a batch on the first axis: `view(-1, 28, 28)` of (N, 1, 28, 28)."""
    row, new = row_size(shape), product(known[1:])
    is_for_batch = isinstance(sizes[0], AxisSize) and sizes[0].axis == 0
    return shape.rows_first and (is_for_batch or (row is not None and row == new))


def sizes_given(arguments: Sequence[Value]) -> list[Value] | None:
    """The sizes that `view` is given, one by one or in a tuple; None if there may be others."""
    sizes = list(arguments)
    if len(sizes) == 1 and isinstance(sizes[0], SequenceValue):
        return sizes[0].items if sizes[0].is_complete else None
    is_number = integer(sizes[0]) is not None or isinstance(sizes[0], Whole) if len(sizes) == 1 else True
    return sizes if is_number else None


def _inferred(shape: Shape, sizes: Sequence[Value], known: Sequence[int | None]) -> int | None:
    """The size that -1 stands for, where the other sizes leave no doubt."""
    others = prod(size for size in known if size is not None)
    is_for_batch = isinstance(sizes[0], AxisSize) and sizes[0].axis == 0
    unknown = [index for index, size in enumerate(known) if size is None and integer(sizes[index]) != -1]
    if is_for_batch and unknown == [0]:
        numbers = row_size(shape)
    else:
        numbers = None if unknown or shape.is_open else product(shape.sizes)
    return numbers // others if numbers is not None and others and numbers % others == 0 else None


def product(sizes: Sequence[int | None]) -> int | None:
    """The number of entries of some axes, None if it is not known."""
    known = [size for size in sizes if size is not None and 0 <= size <= MOST_ENTRIES]
    return prod(known) if len(known) == len(sizes) <= MOST_AXES else None


def row_size(shape: Shape) -> int | None:
    """The number of entries of one row of a batch, None if it is not known."""
    return product(shape.sizes[1:]) if not shape.is_open and shape.sizes else None


def undivided(shape: Shape, arguments: Sequence[Value]) -> tuple[int, int] | None:
    """`view(-1, 320)` of rows with 800 entries: the size and the entries, where neither is a multiple of the other."""
    sizes, row = sizes_given(arguments), row_size(shape)
    if sizes is None or row is None or len(sizes) < 2:
        return None
    is_batch = integer(sizes[0]) == -1 or (isinstance(sizes[0], AxisSize) and sizes[0].axis == 0)
    wanted = product([_size(size) for size in sizes[1:]])
    if not is_batch or not wanted or not row or wanted % row == 0 or row % wanted == 0:
        return None
    return wanted, row


def _size(value: Value) -> int | None:
    size = integer(value)
    return None if size is None or size < 0 else size


def flattened(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`flatten()` leaves one axis, `flatten(1)` two."""
    start = integer(arguments[0]) if arguments else 0
    end = integer(arguments[1]) if len(arguments) > 1 else -1
    if start is None or end is None:
        return ANY
    if shape.is_open:
        # Whatever the axes are, those before the first that is merged stay.
        is_known = start >= 0 and end == -1
        return Shape((None,) * (start + 1), False, shape.rows_first and start > 0) if is_known else ANY
    rank = len(shape.sizes)
    start, end = start % rank if rank else 0, end % rank if rank else 0
    if not rank or start > end:
        return ANY
    together = product(shape.sizes[start : end + 1])
    return Shape(
        (*shape.sizes[:start], together, *shape.sizes[end + 1 :]), False, shape.rows_first and (start > 0 or end == 0)
    )


def transposed(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`transpose(a, b)` swaps two axes."""
    axes = [_axis(shape, argument) for argument in arguments]
    known = [axis for axis in axes if axis is not None]
    if len(known) != 2 or len(axes) != 2:
        return ANY if shape.is_open else Shape((None,) * len(shape.sizes), False)
    sizes = list(shape.sizes)
    sizes[known[0]], sizes[known[1]] = sizes[known[1]], sizes[known[0]]
    return Shape(tuple(sizes), shape.is_open, shape.rows_first and -len(sizes) not in known)


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
    return (
        Shape(tuple(shape.sizes[axis] for axis in order), False, shape.rows_first and order[0] == 0) if inside else ANY
    )


def reduced(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`mean()` leaves a number, `mean(1)` one axis less, `mean((2, 3))` two."""
    if not arguments:
        return Shape((), False)
    given = arguments[0].items if isinstance(arguments[0], SequenceValue) else [arguments[0]]
    axes = {axis for each in given if (axis := _axis(shape, each)) is not None}
    if len(arguments) != 1 or len(axes) != len(given):
        return ANY
    for axis in sorted(axes):
        has_rows = shape.rows_first and axis != -len(shape.sizes)
        shape = Shape(_without(shape.sizes, axis), shape.is_open, has_rows)
    return shape


def without_axes(shape: Shape, axis: Value | None, *, keeps: bool = False) -> Shape:
    """What a reduction along `axis` leaves, all axes without one; with `keeps` each of these has the size 1."""
    if axis is None and not keeps:
        return Shape((), False)
    given = axis.items if isinstance(axis, SequenceValue) else [] if axis is None else [axis]
    axes = [_axis(shape, each) for each in given]
    if shape.is_open or None in axes:
        return ANY
    gone = {len(shape.sizes) + each for each in axes if each is not None} if axes else set(range(len(shape.sizes)))
    sizes = ((1 if index in gone else size) for index, size in enumerate(shape.sizes) if keeps or index not in gone)
    return Shape(tuple(sizes), False, shape.rows_first and 0 not in gone)


Key = str | Shape
"""One key of a subscript: `axis` takes an axis away, `slice` keeps a part, `all` the whole, `new` adds one; a tensor
of places is its shape, `mask` a row of truths for one axis, `rest` (`...`) the axes of no key, `other` any of these."""


def subscripted(shape: Shape, keys: Sequence[Key]) -> Shape:
    """`x[…]` by what its keys are."""
    taken = sum(kind != "new" for kind in keys)
    if shape.is_open or taken > len(shape.sizes) or "other" in keys:
        return ANY
    chosen = [key for key in keys if isinstance(key, Shape)]
    if len(chosen) > 1:
        # `q[torch.arange(n), actions]`: one number for each pair of places.
        together = reduce(broadcast, chosen)
        is_all = len(chosen) == len(keys) and not together.is_open
        return Shape((*together.sizes, *shape.sizes[len(keys) :]), False) if is_all else ANY
    left = list(shape.sizes)
    sizes: list[int | None] = []
    for kind in keys:
        if kind == "new":
            sizes.append(1)
            continue
        taken_from = left.pop(0)
        if isinstance(kind, Shape):
            if kind.is_open:
                return ANY
            sizes.extend(kind.sizes)
        elif kind != "axis":
            sizes.append(taken_from if kind == "all" else None)
    return Shape((*sizes, *left), False, shape.rows_first and keys[:1] == ["all"])


def columns_taken(columns: Slice, count: int | None) -> int | None:
    """How many of `count` columns a slice takes; a part that ends at a number is taken to be there."""
    first = 0 if isinstance(columns.lower, Absent) else integer(columns.lower)
    last = integer(columns.upper)
    if first is None or not isinstance(columns.step, Absent):
        return None
    if count is not None and (last is not None or isinstance(columns.upper, Absent)):
        return len(range(count)[first:last])
    return last - first if last is not None and last > first >= 0 else None


def repeated(shape: Shape, arguments: Sequence[Value]) -> Shape:
    """`repeat(3, 1)` and `expand(8, -1)` have an axis for each number that they are given."""
    sizes = sizes_given(arguments)
    return ANY if sizes is None or not sizes else Shape((None,) * len(sizes), False)


def broadcast(one: Shape, other: Shape) -> Shape:
    """The shape of two tensors put together item by item."""
    if one == other or other.rank == 0:
        return other if one == other and other.rows_first else one
    if one.rank == 0:
        return other
    if one.is_open or other.is_open:
        return ANY
    longer, shorter = sorted((one.sizes, other.sizes), key=len, reverse=True)
    padded = (*(1,) * (len(longer) - len(shorter)), *shorter)
    has_rows = any(each.rows_first and len(each.sizes) == len(longer) for each in (one, other))
    return Shape(tuple(_together(*pair) for pair in zip(longer, padded, strict=True)), False, has_rows)


def _together(one: int | None, other: int | None) -> int | None:
    if one == other or other == 1:
        return one
    # An axis of unknown size may be 1 as well, but then the other one decides.
    return other if one == 1 or one is None else one if other is None else None


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
    if not shape.sizes:
        return Shape((size,), True) if shape.is_open else ANY
    return Shape((*shape.sizes[:-1], size), shape.is_open, shape.rows_first and len(shape.sizes) > 1)


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
    **dict.fromkeys(("std", "median", "amax", "amin", "max", "min"), reduced),
}
"""What methods and functions of torch do to a shape, by their names; the arguments are those after the tensor."""
