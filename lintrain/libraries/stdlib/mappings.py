"""What `keys`, `values` and `items` give of whatever holds values by key: dicts, data sets by split, columns' types."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import ENTRIES, method, of_type
from lintrain.pipeline.values.data import DatasetDict, Features
from lintrain.pipeline.values.python import Constant, Literal, Mapping, Sequence, Value


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
