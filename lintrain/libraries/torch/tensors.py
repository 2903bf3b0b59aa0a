"""Tensors in the hands of code: activations, and the views, slices and moves of what is not understood."""

from __future__ import annotations

from collections.abc import Callable
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
from lintrain.interpreter.shapes import ANY
from lintrain.interpreter.tracing import ACTIVATIONS, DATA, normalised, traced
from lintrain.libraries.torch.creation import note_stacked_rows
from lintrain.model.location import Location
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, LibraryObject, Sequence, Slice, Unknown, Value
from lintrain.pipeline.values.tensors import Derived, Shape


def activated(call: Call) -> Value:
    """A function of `torch.nn.functional` on a tensor: `F.relu(x)`, `F.dropout(x)`."""
    given = call.value("input", 0)
    if isinstance(given, Tensor):
        return traced(call, given, Tensor(given.role, given.model, call.text, origin=call.location))
    return normalised(call) or Tensor(text=call.text, origin=call.location)


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


@method(Unknown, "softmax", "log_softmax", "sigmoid")
def _normalise(call: Call) -> Value:
    return normalised(call) or UNKNOWN


@method(Unknown, "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "clone")
@method(Unknown, "long", "int", "detach", "cpu", "astype")
def _reshape(call: Call) -> Value:
    """The same numbers in another shape: they can be followed back."""
    return _derived(call.receiver, call.path.rpartition(".")[2], call)


@method(Unknown, "to", "cuda")
def _move(call: Call) -> Value:
    """A move of a tensor or of a model: both cases are recorded."""
    moved = call.receiver
    name = call.path.rpartition(".")[2]
    # `x.to(device)` may move a tensor or call a model's method: the call is recorded for the second case,
    # and the value is derived for the first.
    call.receiver = dispatch.child(call.reader, moved, name)
    CALLED[Unknown](call)
    return _derived(moved, name, call)


@function("torch.stack")
def _stack(call: Call) -> Value:
    """Stretches of the same data put together: as one of them, for what is followed."""
    given = call.value("tensors", 0)
    note_stacked_rows(call, given)
    first = given.items[0] if isinstance(given, Sequence) and given.items else UNKNOWN
    if isinstance(given, Sequence) and _are_data(given) and len(call.positional) + len(call.keywords) == 1:
        rows = len(given.items) if given.is_complete else None
        return _put_together(call, given, lambda shape: Shape((rows, *shape.sizes), False))
    return _derived(first, "stack", call) if isinstance(first, Derived) else UNKNOWN


@function("torch.nn.utils.rnn.pad_sequence")
def _pad(call: Call) -> Value:
    """Rows of unequal length, padded to the longest: the axis of the rows and that of the length come first."""
    given = call.value("sequences", 0)
    if not isinstance(given, Sequence) or not _are_data(given):
        escape(call)
        return UNKNOWN
    return _put_together(
        call, given, lambda shape: Shape((None, None, *shape.sizes[1:]), False) if shape.sizes else ANY
    )


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


def _derived(of: Value, by: str, call: Call) -> Value:
    text = call.text.rpartition("(")[2].removesuffix(")")
    return UNKNOWN if of is UNKNOWN else Derived(of=of, by=by, text=text, origin=call.location)


@subscript_of(Unknown)
@subscript_of(LibraryObject)
def _part(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`x["labels"]` is the same thing each time; `x[:, 1:]` is a slice of it."""
    if isinstance(key, Constant) and isinstance(value, Unknown):
        return dispatch.child(reader, value, f"[{key.value!r}]")
    keys = key.items if isinstance(key, Sequence) else [key]
    if value is UNKNOWN or not any(isinstance(each, Slice) for each in keys):
        return UNKNOWN
    text = reader.code(location)
    return Derived(of=value, by="slice", text=text.rpartition("[")[2].removesuffix("]"), origin=location)
