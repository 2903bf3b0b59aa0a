"""Items stored in dictionaries: under a key that is known, or under one of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.interpreter import operations
from lintrain.pipeline.values.python import Constant, Either, Mapping, Value, join

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader


def store_entry(reader: Reader, owner: Mapping, key: Value, value: Value) -> None:
    """`owner[key] = value`."""
    if not isinstance(key, Constant):
        _store_somewhere(reader, owner, key, value)
        return
    before = owner.entries.get(key.value)
    owner.entries[key.value] = operations.weakly(reader, before, value) if reader.conditions else value


def _store_somewhere(reader: Reader, owner: Mapping, key: Value, value: Value) -> None:
    """`owner[key] = value` where the key is one of several, or not known: any entry may be another one now."""
    options = key.options if isinstance(key, Either) else (key,)
    keys = [option.value for option in options if isinstance(option, Constant)]
    if len(keys) < len(options):
        owner.is_complete = False
        keys = list(owner.entries)
        reader.spend(len(keys))
    loop = reader.loops[-1] if reader.loops else None
    is_each = loop is not None and loop.each is key and len(keys) == len(options)
    is_certain = is_each and not any(condition.depth >= len(reader.loops) for condition in reader.conditions)
    for name in keys:
        before = owner.entries.get(name)
        owner.entries[name] = value if is_certain or before is None else join([before, value])
