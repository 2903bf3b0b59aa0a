"""What `keys`, `values` and `items` give of whatever holds values by key: dicts, data sets by split, columns' types."""

from __future__ import annotations

from lintrain.pipeline.call import Call
from lintrain.pipeline.registry import ENTRIES, method, of_type
from lintrain.pipeline.values.data import DatasetDict, Features
from lintrain.pipeline.values.python import Constant, Literal, Mapping, Sequence, Value


@method(Mapping, "keys")
@method(DatasetDict, "keys")
@method(Features, "keys")
def _keys(call: Call) -> Value:
    held, is_complete = _held(call.receiver)
    return Sequence([Constant(key) for key in held], "list", is_complete)


@method(Mapping, "values")
@method(DatasetDict, "values")
@method(Features, "values")
def _values(call: Call) -> Value:
    held, is_complete = _held(call.receiver)
    return Sequence(list(held.values()), "list", is_complete)


@method(Mapping, "items")
@method(DatasetDict, "items")
@method(Features, "items")
def _items(call: Call) -> Value:
    held, is_complete = _held(call.receiver)
    return Sequence([Sequence([Constant(key), value], "tuple") for key, value in held.items()], "list", is_complete)


def _held(value: Value) -> tuple[dict[Literal, Value], bool]:
    if isinstance(value, Mapping):
        return value.entries, value.is_complete
    entries = of_type(ENTRIES, value)
    return entries(value) if entries else ({}, False)
