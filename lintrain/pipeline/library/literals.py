"""The methods of lists, dictionaries and strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline import operations
from lintrain.pipeline.call import Call
from lintrain.pipeline.registry import attribute_of, method
from lintrain.pipeline.retention import note_append
from lintrain.pipeline.values.python import UNKNOWN, Absent, Bound, Constant, Mapping, Sequence, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

MOST_ITEMS = 64
"""A list up to this length is known item by item."""


@method(Sequence, "append")
def _append(call: Call) -> Value:
    note_append(call.reader, call.node, call.value("object", 0), call.reader.frame.scope)
    return _extend(call, [call.value("object", 0)])


@method(Sequence, "extend")
def _extend_with(call: Call) -> Value:
    items = operations.known_items(call.value("iterable", 0), MOST_ITEMS)
    return _extend(call, [UNKNOWN] if items is None else items, is_known=items is not None)


def _extend(call: Call, items: list[Value], *, is_known: bool = True) -> Value:
    receiver = call.receiver
    if isinstance(receiver, Sequence):
        receiver.items.extend(items)
        certain = is_known and not call.reader.loops and not call.reader.conditions
        receiver.is_complete = receiver.is_complete and certain
    return Constant(None)


@method(Sequence, "pop", "remove", "insert", "clear")
def _changed(call: Call) -> Value:
    if isinstance(call.receiver, Sequence):
        call.receiver.is_complete = False
    return UNKNOWN


@method(Sequence, "copy")
def _copied(call: Call) -> Value:
    receiver = call.receiver
    return (
        Sequence(list(receiver.items), receiver.kind, receiver.is_complete)
        if isinstance(receiver, Sequence)
        else UNKNOWN
    )


@method(Mapping, "get", "pop", "setdefault")
def _get(call: Call) -> Value:
    receiver, key = call.receiver, call.value("key", 0)
    if not isinstance(receiver, Mapping) or not isinstance(key, Constant):
        return UNKNOWN
    if key.value in receiver.entries:
        name = call.path.rpartition(".")[2]
        return receiver.entries.pop(key.value) if name == "pop" else receiver.entries[key.value]
    default = call.value("default", 1)
    if not receiver.is_complete:
        return UNKNOWN
    return Constant(None) if isinstance(default, Absent) else default


@method(Mapping, "update")
def _update(call: Call) -> Value:
    receiver = call.receiver
    if isinstance(receiver, Mapping):
        for argument in call.positional:
            receiver.is_complete = operations.update(receiver.entries, argument.value) and receiver.is_complete
        receiver.entries.update({name: argument.value for name, argument in call.keywords.items()})
    return Constant(None)


@method(Mapping, "copy")
def _copy(call: Call) -> Value:
    receiver = call.receiver
    return Mapping(dict(receiver.entries), receiver.is_complete) if isinstance(receiver, Mapping) else UNKNOWN


@attribute_of(Constant)
def _constant_attribute(reader: Reader, value: Value, name: str, place: Place) -> Value | None:
    return Bound(value, name) if isinstance(value, Constant) and isinstance(value.value, str) else UNKNOWN


@method(Constant, "lower", "upper", "strip", "replace", "split", "format")
def _string_method(call: Call) -> Value:
    receiver = call.receiver
    given = [*call.positional, *call.keywords.values()]
    if isinstance(receiver, Constant) and given and call.path.endswith(".format"):
        parts = (receiver, *(argument.value for argument in given))
        return operations.text_of_parts(call.reader, parts, call.place)
    if not isinstance(receiver, Constant) or not isinstance(receiver.value, str) or given:
        return UNKNOWN
    match call.path.rpartition(".")[2]:
        case "lower":
            return Constant(receiver.value.lower(), receiver.is_default)
        case "upper":
            return Constant(receiver.value.upper(), receiver.is_default)
        case "strip":
            return Constant(receiver.value.strip(), receiver.is_default)
        case _:
            return UNKNOWN
