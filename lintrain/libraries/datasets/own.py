"""The script's own torch data sets: what one item of them is."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import ENTRIES, base_call, of_type
from lintrain.libraries.datasets.columns import column_of
from lintrain.pipeline.values.data import Column, OwnRows
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Class,
    Function,
    Instance,
    Literal,
    Mapping,
    Unknown,
    Value,
)


@base_call("torch.utils.data.Dataset")
def _make(call: Call) -> Value:
    """An object of the script's own Dataset class; its `__getitem__` is read once."""
    cls = call.receiver
    if not isinstance(cls, Class):
        return UNKNOWN
    made = objects.make_instance(call, cls)
    found = cls.lookup("__getitem__")
    if isinstance(made, Instance) and found is not None and isinstance(found[1], Function):
        method = Bound(made, "__getitem__", found[1], found[0])
        item = dispatch.call(call.reader, method, [Unknown(name="index")], location=call.location)
        columns, is_complete = _columns(call, item)
        call.reader.record.own_rows.append(OwnRows(made, columns, is_complete, found[1].origin))
    return made


def _columns(call: Call, item: Value) -> tuple[dict[str, Column], bool]:
    """What an item holds by name, where it is a dictionary."""
    entries: dict[Literal, Value] = {}
    if not isinstance(item, Mapping) and of_type(ENTRIES, item) is None:
        return {}, False
    is_complete = operations.update(call.reader, entries, item)
    named = {name: value for name, value in entries.items() if isinstance(name, str)}
    return {name: column_of(name, value, is_batch=False) for name, value in named.items()}, is_complete
