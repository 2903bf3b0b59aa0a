"""Lists, dictionaries and the script's own containers: their items, slices and unions."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import ENTRIES, element_of, function, method, of_type, operated, subscript_of
from lintrain.model.location import Location
from lintrain.pipeline.values.data import DatasetDict, Features
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Instance,
    Literal,
    Mapping,
    Sequence,
    Slice,
    Value,
    join,
)


@subscript_of(Mapping)
def _entry(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Mapping):
        return UNKNOWN
    if isinstance(key, Constant) and key.value in value.entries:
        return value.entries[key.value]
    # An entry that may exist is one unknown thing, the same each time. One that cannot exist raises
    # KeyError.
    if isinstance(key, Constant) and not value.is_complete:
        return dispatch.child(reader, value, f"[{key.value!r}]")
    return join(reader.counted(value.entries).values()) if value.entries and value.is_complete else UNKNOWN


@subscript_of(Sequence)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Sequence):
        return UNKNOWN
    match key:
        case Constant(value=int(index)) if value.is_complete and -len(value.items) <= index < len(value.items):
            return value.items[index]
        case Slice():
            return _slice(reader, value, key)
        case _:
            return UNKNOWN


def _slice(reader: Reader, value: Sequence, key: Slice) -> Value:
    items = reader.counted(value.items)
    bounds = [_bound(part) for part in (key.lower, key.upper, key.step)]
    if not value.is_complete or any(isinstance(bound, Value) for bound in bounds) or bounds[2] == 0:
        # Some of the items, how many is not known: one that is any of them stands for all.
        return Sequence([join(items)] if items else [], value.kind, False)
    lower, upper, step = (bound if isinstance(bound, int) else None for bound in bounds)
    return Sequence(items[lower:upper:step], value.kind)


def _bound(part: Value) -> int | Value | None:
    """One bound of a slice: None where it is left out, the value itself where it is not known."""
    if isinstance(part, Absent):
        return None
    if isinstance(part, Constant) and not part.is_default and (part.value is None or isinstance(part.value, int)):
        return part.value
    return part


@operated(Mapping)
def _union(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """`defaults | given`."""
    if operator != "BitOr":
        return None
    entries: dict[Literal, Value] = {}
    is_complete = [operations.update(reader, entries, side) for side in (left, right)]
    return Mapping(entries, all(is_complete), origin=location)


@subscript_of(Instance)
def _own_item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    made = objects.special(reader, value, "__getitem__", [key], location) if isinstance(value, Instance) else None
    return UNKNOWN if made is None else made


@element_of(Instance)
def _own_element(reader: Reader, value: Value) -> Value:
    """What `__iter__` iterates over."""
    if not isinstance(value, Instance) or value.origin is None:
        return UNKNOWN
    iterator = objects.special(reader, value, "__iter__", [], value.origin)
    if iterator is None:
        return UNKNOWN
    # `return self` in `__iter__`: the object is its own iterator, and `__next__` gives the elements.
    if iterator is value:
        return objects.special(reader, value, "__next__", [], value.origin) or UNKNOWN
    return dispatch.element(reader, iterator)


@function("collections.OrderedDict")
def _ordered(call: Call) -> Value:
    entries: dict[Literal, Value] = {}
    known = [operations.update(call.reader, entries, argument.value) for argument in call.positional]
    entries.update({name: argument.value for name, argument in call.keywords.items() if name != "**"})
    return Mapping(entries, all(known) and not call.is_open and "**" not in call.keywords, origin=call.location)


@function("collections.defaultdict")
def _with_defaults(call: Call) -> Value:
    return Mapping({}, False, origin=call.location)


@method(Mapping, "keys")
@method(DatasetDict, "keys")
@method(Features, "keys")
def _keys(call: Call) -> Value:
    held, is_complete = _held(call)
    return Sequence([Constant(key) for key in held], "list", is_complete)


@method(Mapping, "values")
@method(DatasetDict, "values")
@method(Features, "values")
def _values(call: Call) -> Value:
    held, is_complete = _held(call)
    return Sequence(list(held.values()), "list", is_complete)


@method(Mapping, "items")
@method(DatasetDict, "items")
@method(Features, "items")
def _items(call: Call) -> Value:
    held, is_complete = _held(call)
    return Sequence([Sequence([Constant(key), value], "tuple") for key, value in held.items()], "list", is_complete)


def _held(call: Call) -> tuple[dict[Literal, Value], bool]:
    value = call.receiver
    entries = of_type(ENTRIES, value)
    held, is_complete = entries(value) if entries else ({}, False)
    if isinstance(value, Mapping):
        held, is_complete = value.entries, value.is_complete
    call.reader.spend(len(held))
    return held, is_complete
