"""Lists, dictionaries and the script's own containers: their items, slices and unions."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import element_of, function, operated, subscript_of
from lintrain.model.location import Location
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
    """What `__iter__` goes through."""
    if not isinstance(value, Instance) or value.origin is None:
        return UNKNOWN
    iterator = objects.special(reader, value, "__iter__", [], value.origin)
    if iterator is None:
        return UNKNOWN
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
