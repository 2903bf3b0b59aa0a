"""The script's own containers: their items, and what they have from a dictionary that they derive from."""

from __future__ import annotations

from lintrain.interpreter import inherited, objects
from lintrain.interpreter.core import dispatch, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    base,
    element_of,
    entries_of,
    held_by,
    method,
    stored_item_of,
    subscript_of,
)
from lintrain.libraries.stdlib.containers import ordered
from lintrain.model.location import Location
from lintrain.pipeline.values.python import UNKNOWN, Constant, Instance, Literal, Mapping, Value


@subscript_of(Instance)
def _own_item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Instance):
        return UNKNOWN
    made = objects.special(reader, value, "__getitem__", [key], location)
    # A class without a `__getitem__` of its own has that of the dictionary that it derives from.
    if made is None and value.base is not None:
        return dispatch.subscript(reader, value.base, key, location)
    return UNKNOWN if made is None else made


@stored_item_of(Instance)
def _store_own_item(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    if isinstance(owner, Instance):
        inherited.store_item(reader, owner, key, value, location)


@entries_of(Instance)
def _own_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    held = value.base if isinstance(value, Instance) else None
    return held_by(held) if held is not None else ({}, False)


@base("builtins.dict", "collections.OrderedDict", "collections.UserDict")
def _entries_of_own(call: Call) -> Value:
    """The entries of an object of `class Settings(dict)`."""
    return ordered(call)


@method(Mapping, "__getitem__")
def _get_entry(call: Call) -> Value:
    return dispatch.subscript(call.reader, call.receiver, call.value("key", 0), call.location)


@method(Mapping, "__setitem__")
def _set_entry(call: Call) -> Value:
    """`super().__setitem__(key, value)`."""
    storing.store_item(call.reader, call.receiver, call.value("key", 0), call.value("value", 1), call.location)
    return Constant(None)


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
