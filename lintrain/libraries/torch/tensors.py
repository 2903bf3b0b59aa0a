"""Tensors in the hands of code: those that it creates, with their shapes and kinds of number as far as the call shows
them, those that it joins, and views, slices and activations of them.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as SequenceType
from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    CALLED,
    function,
    method,
    stored_attribute_of,
    stored_item_of,
    subscript_of,
)
from lintrain.interpreter.shapes import ANY, RESHAPES, integer, product, unsqueezed, viewed
from lintrain.interpreter.tracing import (
    ACTIVATIONS,
    CUTS,
    DATA,
    KINDS,
    REBUILDS,
    graph_here,
    kind_asked_for,
    normalised,
    rest,
    traced,
)
from lintrain.libraries.torch.literals import TYPED, data, note_joined_numbers, note_stacked_rows, takes_sizes
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Column, ColumnValues, Kind, Rows
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    LibraryObject,
    Sequence,
    Slice,
    Unknown,
    Value,
    literal,
)
from lintrain.pipeline.values.tensors import AxisSize, Derived, Operation, Shape, Whole, shape_of
from lintrain.startup.lazy_pattern import lazy_pattern


def activated(call: Call) -> Value:
    """A function of `torch.nn.functional` on a tensor: `F.relu(x)`, `F.dropout(x)`."""
    given = call.value("input", 0)
    if isinstance(given, Tensor):
        return traced(call, given, Tensor(given.role, given.model, call.text, origin=call.location))
    return normalised(call) or Tensor(text=call.text, shape=shape_of(given), origin=call.location)


@method(Tensor, *sorted(ACTIVATIONS - {"softmax", "sigmoid", "log_softmax", "exp"}), "requires_grad_", "bfloat16")
def _activate(call: Call) -> Value:
    given = call.receiver
    if not isinstance(given, Tensor):
        return UNKNOWN
    return traced(call, given, Tensor(given.role, given.model, call.text, origin=call.location))


@method(
    Tensor, "unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "resize_", "resize_as_", "resize"
)
def _reshape_in_place(call: Call) -> Value:
    """The tensor itself, in a shape that is not followed."""
    if isinstance(call.receiver, Tensor):
        call.receiver.shape = ANY
    return call.receiver


@stored_attribute_of(Tensor)
def _set_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`array.shape = (-1, 1)`, `tensor.data = other`: another shape, perhaps."""
    if isinstance(owner, Tensor) and name in {"shape", "data"}:
        owner.shape = ANY


@method(Tensor, "type_as")
def _type_as(call: Call) -> Value:
    """The same numbers, of the kind that another tensor has."""
    given, other = call.receiver, call.value("other", 0)
    if not isinstance(given, Tensor):
        return UNKNOWN
    kind = other.kind if isinstance(other, Tensor) else ""
    is_whole = kind in {"int", "bool"}
    cut = given.cut or (Operation("type_as", call.location, call.text) if is_whole else None)
    return replace(given, role=Role.UNKNOWN if is_whole else given.role, kind=kind, cut=cut, origin=call.location)


@method(Unknown, "softmax", "log_softmax", "sigmoid")
def _normalise(call: Call) -> Value:
    return normalised(call) or UNKNOWN


@method(Unknown, "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "clone")
@method(Unknown, "long", "int", "detach", "cpu", "astype")
def _reshape(call: Call) -> Value:
    """The same numbers in another shape: they can be followed back."""
    name = call.path.rpartition(".")[2]
    before = shape_of(call.receiver)
    if name not in RESHAPES:
        return _derived(call.receiver, name, call, before)
    arguments = [argument.value for argument in rest(call, call.receiver)]
    return _derived(call.receiver, name, call, ANY if call.is_open else RESHAPES[name](before, arguments))


@method(Unknown, "to", "cuda", "float", "double", "half", "bfloat16")
def _move(call: Call) -> Value:
    """A move of a tensor or of a model: both cases are recorded."""
    moved = call.receiver
    name = call.path.rpartition(".")[2]
    # `x.to(device)` may move a tensor or call a model's method: the call is recorded for the second case,
    # and the value is derived for the first.
    call.receiver = dispatch.child(call.reader, moved, name)
    CALLED[Unknown](call)
    return _derived(moved, name, call, shape_of(moved))


@method(Unknown, "size")
def _size_of_unknown(call: Call) -> Value:
    """`x.size(0)`, which only tensors have: a whole number."""
    axis = integer(call.value("dim", 0))
    if axis is None or len(call.positional) + len(call.keywords) != 1:
        call.receiver = dispatch.child(call.reader, call.receiver, "size")
        return CALLED[Unknown](call)
    return AxisSize(name="size", axis=axis)


@function("torch.stack", "numpy.stack")
def _stack(call: Call) -> Value:
    """Stretches of the same data put together: as one of them, for what is followed."""
    given = call.value("tensors", 0)
    note_stacked_rows(call, given)
    first = given.items[0] if isinstance(given, Sequence) and given.items else UNKNOWN
    if isinstance(given, Sequence) and _are_data(given) and len(call.positional) + len(call.keywords) == 1:
        rows = len(given.items) if given.is_complete else None
        return _put_together(call, given, lambda shape: Shape((rows, *shape.sizes), False))
    return joined(call) or of_unknown(call, first if isinstance(first, Derived) else UNKNOWN)


@function("torch.nn.utils.rnn.pad_sequence")
def _pad(call: Call) -> Value:
    """Rows of unequal length, padded to the longest: the axis of the rows and that of the length come first."""
    given = call.value("sequences", 0)
    items = given.items if isinstance(given, Sequence) else []
    tensors = [item for item in items if isinstance(item, Tensor)]
    if not isinstance(given, Sequence) or not tensors or len(tensors) < len(items):
        escape(call)
        return _padded(call, items)
    ranks = {tensor.shape.rank for tensor in tensors}
    alike = replace(tensors[0], shape=tensors[0].shape if len(ranks) == 1 else ANY)
    return _put_together(
        call, Sequence([alike]), lambda shape: Shape((None, None, *shape.sizes[1:]), False) if shape.sizes else ANY
    )


def _padded(call: Call, items: SequenceType[Value]) -> Tensor:
    """Rows that are no known tensors; token ids have one axis each."""
    are_tokens = bool(items) and all(_is_token_row(item) for item in items)
    shape, kind = (Shape((None, None), False), "int") if are_tokens else (ANY, "")
    return Tensor(text=call.text, made=Operation(DATA, call.location, call.text), shape=shape, kind=kind)


def _is_token_row(value: Value) -> bool:
    is_row = isinstance(value, ColumnValues) and isinstance(value.dataset, Rows) and not value.dataset.is_batch
    return is_row and isinstance(value, ColumnValues) and value.column.kind in {Kind.TOKENS, Kind.MASK}


def _are_data(given: Sequence) -> bool:
    """Whether all items are tensors of data with the same axes."""
    tensors = [item for item in given.items if isinstance(item, Tensor) and item.made and item.made.name == DATA]
    shapes = {(tensor.shape, tensor.kind) for tensor in tensors}
    # Tensors of unequal shapes make `torch.stack` raise, so only equal ones have a known result.
    return len(tensors) == len(given.items) and len(shapes) == 1 and not tensors[0].shape.is_open


def _put_together(call: Call, given: Sequence, shaped: Callable[[Shape], Shape]) -> Value:
    first = given.items[0]
    return (
        replace(first, shape=shaped(first.shape), text=call.text, origin=call.location)
        if isinstance(first, Tensor)
        else UNKNOWN
    )


@stored_item_of(Derived)
def _change_in_place(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`labels[:, :-1] = ids[:, 1:]` makes other tokens of them; a literal like -100 only masks some."""
    # Labels that are filled with other tokens are no longer a copy of the inputs.
    if isinstance(owner, Derived) and not isinstance(value, Constant):
        owner.of, owner.by = UNKNOWN, "change"


def _derived(of: Value, by: str, call: Call, shape: Shape = ANY) -> Value:
    text = call.text.rpartition("(")[2].removesuffix(")")
    if of is UNKNOWN and shape == ANY:
        return UNKNOWN
    # Two things of which nothing is known are not the same thing.
    return Derived(of=Unknown() if of is UNKNOWN else of, by=by, text=text, shape=shape, origin=call.location)


@subscript_of(Unknown)
@subscript_of(LibraryObject)
def _part(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`x["labels"]` is the same thing each time; `x[:, 1:]` is a slice of it."""
    if isinstance(value, Unknown) and value.name.endswith(".data") and integer(key) == 0:
        reader.record.misuses.append(Misuse(location, value, "data index", reader.code(location)))
    if isinstance(value, Unknown) and (cell := _of_frame(value, key, location)) is not None:
        return cell
    if isinstance(key, Constant) and isinstance(value, Unknown):
        return dispatch.child(reader, value, f"[{key.value!r}]")
    keys = key.items if isinstance(key, Sequence) else [key]
    if value is UNKNOWN or not any(isinstance(each, Slice) for each in keys):
        return UNKNOWN
    text = reader.code(location)
    return Derived(of=value, by="slice", text=text.rpartition("[")[2].removesuffix("]"), origin=location)


INDEXER = lazy_pattern(r"(?:\['(?P<column>[^']*)'\])?\.i?(?:loc|at)(?P<row>\[\])?$")
"""Attributes that only frames and series have, at the end of a name."""


def _of_frame(value: Unknown, key: Value, location: Location) -> Value | None:
    """A row of an unknown frame, `frame.iloc[index]`, and a value of it; of a series the first is a value itself."""
    found = INDEXER.search(value.name)
    if found is None:
        return None
    match key:
        case Constant(value=str(name)) if found["row"]:
            pass
        case Sequence(items=[Whole() | Constant(value=int()), Constant(value=str() | int() as name)], kind="tuple"):
            pass
        case Whole() | Constant(value=int()) if found["column"] and not found["row"]:
            name = found["column"]
        case Whole() | Constant(value=int()) if not found["row"]:
            return Unknown(name=f"{value.name}[]", origin=location)
        case _:
            return None
    # Without axes: a frame that is not known may hold lists or arrays.
    return ColumnValues(Column(name if isinstance(name, str) else ""), origin=location)


@function("torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty", "numpy.random.randn")
@function("numpy.random.rand", "numpy.zeros", "numpy.ones", "numpy.random.random")
def _sized(call: Call) -> Value:
    """`torch.randn(96, 8)`: one argument for each axis, or all in one tuple."""
    size = call.keywords.get("size", call.keywords.get("shape"))
    sizes = [size.value] if size else [argument.value for argument in call.positional]
    if call.path in {"numpy.zeros", "numpy.ones"}:
        sizes = sizes[:1]
    return data(call, ANY if call.is_open else _shape_of(sizes), "float")


def _shape_of(sizes: SequenceType[Value]) -> Shape:
    return viewed(ANY, [Constant(size) for size in map(integer, sizes)]) if _are_numbers(sizes) else viewed(ANY, sizes)


def _are_numbers(sizes: SequenceType[Value]) -> bool:
    return bool(sizes) and all(integer(size) is not None for size in sizes)


@function("torch.randint")
def _integers(call: Call) -> Value:
    """`torch.randint(3, (96,))`, `torch.randint(0, 3, size=(96,))`."""
    sizes: list[Value] = [each.value for each in call.positional if isinstance(each.value, Sequence)]
    sizes.extend([call.keywords["size"].value] if "size" in call.keywords else [])
    return data(call, viewed(ANY, sizes) if len(sizes) == 1 else ANY, "int")


@function("torch.arange", "torch.linspace", "numpy.arange", "numpy.linspace")
def _line(call: Call) -> Value:
    bounds = [literal(argument.value) for argument in call.positional]
    is_whole = call.path.endswith("arange") and bool(bounds) and all(isinstance(bound, int) for bound in bounds)
    return data(call, Shape((None,), False), "int" if is_whole else "")


def joined(call: Call) -> Tensor | None:
    """What `torch.cat` and `torch.stack` give; None where the tensors are not known."""
    given = call.value("tensors", 0)
    items = [item for item in given.items if isinstance(item, Tensor)] if isinstance(given, Sequence) else []
    if not isinstance(given, Sequence) or not items:
        return None
    if len(items) != len(given.items):
        return _with_unknown(call, given)
    name = call.path.rpartition(".")[2]
    if name != "stack":
        note_joined_numbers(call, items)
    shape = _shape(call, [item.shape for item in items], is_stack=name == "stack")
    if not given.is_complete and not shape.is_open:
        shape = Shape((None,) * len(shape.sizes), False)
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
        passes=graph_here(call.reader, items),
    )


def _with_unknown(call: Call, given: Sequence) -> Tensor:
    """Tensors put together with something else: as many axes as those have."""
    name = call.path.rpartition(".")[2]
    shapes = [item.shape if isinstance(item, Tensor) else ANY for item in given.items]
    shape = _shape(call, shapes, is_stack=name == "stack")
    # The graph is that of the parts which are known: a loss of the whole goes back through them in any case.
    return replace(
        of_unknown(call, UNKNOWN),
        shape=shape if shape.is_open else Shape((None,) * len(shape.sizes), False),
        passes=graph_here(call.reader, given.items),
    )


def _shape(call: Call, shapes: list[Shape], *, is_stack: bool) -> Shape:
    given = call.value("axis") if "axis" in call.keywords else call.value("dim", 1)
    axis: Value = Constant(0) if isinstance(given, Absent) else given
    ranks, number = {shape.rank for shape in shapes if not shape.is_open}, integer(axis)
    if call.is_open or number is None:
        return ANY
    if not ranks and not is_stack and number == 1 and {len(shape.sizes) for shape in shapes} == {3}:
        # Maps of convolutions: single images are not joined by their height, so this is a batch of them.
        return Shape(_along([Shape((None, *shape.sizes), False) for shape in shapes], 1).sizes[1:])
    if len(ranks) != 1:
        return ANY
    # What is put together has as many axes: where some of it is not known, the rest shows them.
    open_one = Shape((None,) * (ranks.pop() or 0), False)
    shapes = [open_one if shape.is_open else shape for shape in shapes]
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


def of_unknown(call: Call, given: Value) -> Tensor:
    """What a function of torch gives of something that is not understood: a tensor all the same.

    One that only puts the numbers into another form can be followed back to what it was given.
    """
    name, arguments = call.path.rpartition(".")[2], [argument.value for argument in call.positional]
    if name in TYPED and (len(arguments) > 1 or (arguments and takes_sizes(call, arguments[0]))):
        shape = ANY if call.is_open else _shape_of(arguments)
        return Tensor(text=call.text, made=Operation(DATA, call.location), shape=shape, kind=KINDS[name])
    shape = shape_of(given)
    if name in RESHAPES:
        axes = [argument.value for argument in rest(call, given)]
        shape = ANY if call.is_open or "keepdim" in call.keywords else RESHAPES[name](shape, axes)
    is_same = name in SAME_NUMBERS and isinstance(given, Unknown)
    here = Operation(name, call.location, call.text)
    return Tensor(
        text=call.text,
        made=Operation(DATA, call.location, call.text) if name in FROM_OUTSIDE else None if is_same else here,
        shape=shape,
        kind=kind_asked_for(call, KINDS.get(name, "")),
        cut=here if name in CUTS | REBUILDS and name != "Variable" else None,
        of=given if is_same else UNKNOWN,
        origin=call.location,
    )


FROM_OUTSIDE = frozenset({"from_numpy", "frombuffer"})
SAME_NUMBERS = frozenset({"from_numpy", "as_tensor", "stack", "Variable", *REBUILDS, *RESHAPES}) - {
    "mean",
    "sum",
    "argmax",
}
"""Functions that leave the numbers what they are."""
