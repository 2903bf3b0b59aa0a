"""Rows that no library made: the items of the script's own `Dataset` classes, and of lists that are used as data."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.items import put_together
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import ENTRIES, base_call, of_type
from lintrain.libraries.datasets.columns import column_of
from lintrain.model.location import Location
from lintrain.pipeline.values.data import Column, Dataset, OwnRows, Rows, Step
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Class,
    Either,
    Function,
    Instance,
    Literal,
    Mapping,
    Sequence,
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
        # Read here and not at each use: a loop over the loader only gets what this one reading found.
        method = Bound(made, "__getitem__", found[1], found[0])
        item = dispatch.call(call.reader, method, [Unknown(name="index")], location=call.location)
        note_rows(call.reader, made, item, Step("__getitem__", found[1].origin or call.location, cls.node.name))
    return made


def note_list(reader: Reader, given: Value, location: Location, text: str) -> None:
    """Record the rows of a list that is given to a loader or a trainer."""
    if isinstance(given, Sequence) and all(rows.owner is not given for rows in reader.record.own_rows[-MOST_LISTS:]):
        item = dispatch.element(reader, given)
        if not isinstance(item, Unknown):
            note_rows(reader, given, item, Step("list", given.origin or location, text))


MOST_LISTS = 16
"""Data sets made last among which a list is searched, before it is recorded again."""


def note_rows(reader: Reader, owner: Value, item: Value, step: Step) -> None:
    """Record the rows of something that is not a data set of a library, each of them like this item."""
    if isinstance(item, Rows) and isinstance(item.dataset, Dataset) and item.is_whole:
        reader.record.own_rows.append(OwnRows(owner, item.dataset))
        return
    columns, is_complete = columns_of(reader, item)
    rows = Dataset(columns, is_complete, (step,), library="", origin=step.location)
    reader.record.own_rows.append(OwnRows(owner, rows))


def columns_of(reader: Reader, item: Value) -> tuple[dict[str, Column], bool]:
    """What an item holds by name, where it is a dictionary, and whether that is all."""
    entries: dict[Literal, Value] = {}
    if isinstance(item, Either):
        # A list of two or three rows holds one of them; what all of them have, every row has.
        item = put_together(item.options)
    if not isinstance(item, Mapping) and of_type(ENTRIES, item) is None:
        return {}, False
    is_complete = operations.update(reader, entries, item)
    named = {name: value for name, value in entries.items() if isinstance(name, str)}
    return {name: column_of(name, value, is_batch=False) for name, value in named.items()}, is_complete
