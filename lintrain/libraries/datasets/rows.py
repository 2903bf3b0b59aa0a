"""Rows and encodings in the hands of code: read, set, taken out and passed on like dictionaries."""

from __future__ import annotations

from collections.abc import Callable

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    element_of,
    entries_of,
    method,
    stored_item_of,
    subscript_of,
)
from lintrain.model.location import Location
from lintrain.pipeline.values.data import Column, ColumnValues, Dataset, Encoding, Rows
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Literal,
    Mapping,
    Sequence,
    Value,
    join,
    text_of,
)


@entries_of(Rows)
def row_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What rows hold by column, with what code put into them."""
    if not isinstance(value, Rows):
        return {}, False
    held: dict[Literal, Value] = {name: ColumnValues(column, value) for name, column in value.columns.items()}
    is_complete = isinstance(value.dataset, Dataset) and value.dataset.is_complete and not value.is_open
    # What code has set comes last: it replaces the column of the data set.
    return held | value.items, is_complete


@entries_of(Encoding)
def encoding_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What an encoding holds by key."""
    if not isinstance(value, Encoding):
        return {}, False
    held: dict[Literal, Value] = {name: ColumnValues(column, value) for name, column in value.columns.items()}
    return held | value.items, value.is_complete


def entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What rows or an encoding hold, and whether that is all."""
    return row_entries(value) if isinstance(value, Rows) else encoding_entries(value)


@subscript_of(Rows)
def read_row(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`rows["text"]`."""
    name = text_of(key)
    if not isinstance(value, Rows) or name is None:
        return UNKNOWN
    value.reads.add(name)
    # A need is a column without which every row raises KeyError. One that is read under `if` or in `try`
    # may be missing.
    if len(reader.conditions) <= value.depth and not reader.guards and name not in value.items:
        value.needs.setdefault(name, location)
    held, is_complete = row_entries(value)
    if name in held:
        return held[name]
    return UNKNOWN if is_complete or name in value.removed else ColumnValues(Column(name), value)


@subscript_of(Encoding)
def read_encoding(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`encoding["input_ids"]`."""
    return encoding_entries(value)[0].get(text_of(key), UNKNOWN)


@attribute_of(Encoding)
def _encoding_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if name == "data":
        return value
    return encoding_entries(value)[0].get(name)


@stored_item_of(Rows)
@stored_item_of(Encoding)
def store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`rows["labels"] = value`; a store that may be skipped leaves what it holds open."""
    if not isinstance(owner, Rows | Encoding):
        return
    name = text_of(key)
    if name is None:
        _open(owner)
        return
    before = entries(owner)[0].get(name)
    # Depth is the number of conditions around the making of the rows. A store under the same `if` as that
    # is certain.
    is_certain = len(reader.conditions) <= owner.depth
    owner.items[name] = value if is_certain else join([UNKNOWN if before is None else before, value])
    if isinstance(owner, Rows):
        owner.removed.discard(name)


def _open(owner: Rows | Encoding) -> None:
    if isinstance(owner, Rows):
        owner.is_open = True
    else:
        owner.is_complete = False


@element_of(Rows)
@element_of(Encoding)
def _keys_of(reader: Reader, value: Value) -> Value:
    held, is_complete = entries(value)
    return join([Constant(name) for name in held]) if held and is_complete else UNKNOWN


def _methods(*names: str) -> Callable[[Transfer], Transfer]:
    """Register a method of rows and of encodings."""

    def register(transfer: Transfer) -> Transfer:
        return method(Encoding, *names)(method(Rows, *names)(transfer))

    return register


@_methods("items")
def _items(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Sequence([Sequence([Constant(name), item], "tuple") for name, item in held.items()], "list", is_complete)


@_methods("keys")
def _keys(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Sequence([Constant(name) for name in held], "list", is_complete)


@_methods("values")
def _values(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Sequence(list(held.values()), "list", is_complete)


@_methods("copy")
def _copy(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Mapping(held, is_complete, origin=call.location)


def _looked_up(call: Call) -> Value:
    """What is there, for code that can do without it."""
    rows, before = call.receiver, dict(call.receiver.needs) if isinstance(call.receiver, Rows) else {}
    # `get` has an answer without the column, so what it reads is not needed: the needs are put back.
    found = dispatch.subscript(call.reader, rows, call.value("key", 0), call.location)
    if isinstance(rows, Rows):
        rows.needs = before
    return found


@_methods("get", "setdefault")
def _get(call: Call) -> Value:
    found = _looked_up(call)
    default = call.value("default", 1)
    return join([found, Constant(None) if isinstance(default, Absent) else default])


@_methods("pop")
def _pop(call: Call) -> Value:
    name = text_of(call.value("key", 0))
    has_default = len(call.positional) + len(call.keywords) > 1
    found = (
        _looked_up(call)
        if has_default
        else dispatch.subscript(call.reader, call.receiver, call.value("key", 0), call.location)
    )
    _take_out(call.reader, call.receiver, name)
    return found


@_methods("update")
def _update(call: Call) -> Value:
    added: dict[Literal, Value] = {name: each.value for name, each in call.keywords.items() if name != "**"}
    is_known = "**" not in call.keywords
    for argument in call.positional:
        is_known = operations.update(call.reader, added, argument.value) and is_known
    for name, value in added.items():
        store(call.reader, call.receiver, Constant(name), value, call.location)
    if not is_known and isinstance(call.receiver, Rows | Encoding):
        _open(call.receiver)
    return Constant(None)


def _take_out(reader: Reader, owner: Value, name: str | None) -> None:
    if not isinstance(owner, Rows | Encoding) or name is None:
        return
    # After a `pop` that may be skipped the entry is there or not: the whole is open, and nothing is proved
    # missing.
    if len(reader.conditions) > owner.depth:
        _open(owner)
        return
    owner.items.pop(name, None)
    if isinstance(owner, Rows):
        owner.removed.add(name)
    else:
        owner.columns.pop(name, None)


@method(Encoding, "to", "convert_to_tensors")
def _same_encoding(call: Call) -> Value:
    return call.receiver
