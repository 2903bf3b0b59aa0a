"""Copies of containers and objects, and what a dataclass holds as a dictionary."""

from __future__ import annotations

from lintrain.interpreter import classes
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Instance,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    mapping_of,
)

DEEPEST = 4
"""Levels of lists and dictionaries that a deep copy is followed into."""


@function("dataclasses.asdict")
def _as_dictionary(call: Call) -> Value:
    value = call.value("obj", 0)
    if not isinstance(value, Instance) or not classes.is_dataclass(value.cls):
        return UNKNOWN
    held = {name: value.attributes.get(name, UNKNOWN) for name in classes.fields_of(value.cls)}
    return mapping_of(held, is_complete=True)


def copied(reader: Reader, value: Value, levels: int = DEEPEST) -> Value | None:
    """A deep copy of literals, lists and dictionaries; None where something else is in it, or it is too deep."""
    match value:
        # An unknown thing is kept as it is: following it by identity is worth more than the difference to
        # its copy.
        case Constant() | Unknown():
            return value
        case Sequence() if levels:
            reader.spend()
            items = [copied(reader, item, levels - 1) for item in value.items]
            known = [item for item in items if item is not None]
            # A copy of a part would seem complete, so one item that cannot be copied makes the whole
            # unknown.
            return Sequence(known, value.kind, value.is_complete) if len(known) == len(items) else None
        case Mapping() if levels:
            reader.spend()
            entries: dict[Literal, Value] = {}
            for key, held in value.entries.items():
                made = copied(reader, held, levels - 1)
                if made is None:
                    return None
                entries[key] = made
            return Mapping(entries, value.is_complete, origin=value.origin)
        case _:
            return None


@function("copy.copy")
def _copy(call: Call) -> Value:
    """A container of its own that holds the same things."""
    match call.value("x", 0):
        case Sequence() as value:
            return Sequence([*call.reader.counted(value.items)], value.kind, value.is_complete, origin=call.location)
        case Mapping() as value:
            return Mapping(dict(call.reader.counted(value.entries)), value.is_complete, origin=call.location)
        case Instance() as value:
            return Instance(value.cls, dict(call.reader.counted(value.attributes)), origin=call.location)
        case value:
            return value
