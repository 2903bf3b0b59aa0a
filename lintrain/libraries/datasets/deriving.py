"""A data set made from another one: its history grows by a step, and the record keeps it."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict, Step
from lintrain.pipeline.values.python import Absent, Constant, Sequence, Value

LIBRARY = "datasets"


def derived(call: Call, parent: Dataset, operation: str) -> Dataset:
    """A data set with the columns of another; a caller that changes columns gives it new ones."""
    # Both are copied. A loop that is written out as 1,000 calls of `map` would otherwise copy half a
    # million steps.
    call.reader.counted(parent.steps)
    call.reader.counted(parent.columns or ())
    made = replace(
        parent,
        parent=parent,
        steps=(*parent.steps, Step(operation, call.location, call.text)),
        # Copies, since `set_format` changes a data set in place: the parent must not change with its child.
        hidden=dict(parent.hidden),
        needs=dict(parent.needs),
        is_unchanged=False,
        rows=None,
        cut=None,
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    call.reader.record.datasets.append(made)
    return made


def recolumned(made: Dataset, columns: dict[str, Column], *, is_complete: bool) -> Dataset:
    """Give a data set columns of its own."""
    made.columns = columns
    made.is_complete = is_complete
    # Formats belong to the columns of before: a new column with an old name is a new thing.
    made.read_as_text = {}
    return made


def started(call: Call, operation: str, columns: dict[str, Column] | None, *, is_complete: bool) -> Dataset:
    """A data set that begins here."""
    made = Dataset(
        columns,
        is_complete,
        (Step(operation, call.location, call.text),),
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    call.reader.record.datasets.append(made)
    return made


def dictionary(call: Call, splits: dict[str, Dataset], parent: DatasetDict | None = None) -> DatasetDict:
    """Splits that are all known."""
    made = DatasetDict(splits, None, True, parent, len(call.reader.conditions), origin=call.location)
    call.reader.record.datasets.append(made)
    return made


def names_in(value: Value) -> set[str] | None:
    """The column names that an argument lists; None where some of them are not known."""
    match value:
        case Absent() | Constant(value=None, is_default=False):
            return set()
        case Constant(value=str(name), is_default=False):
            return {name}
        case Sequence(items=items, is_complete=True):
            names = {item.value for item in items if isinstance(item, Constant) and isinstance(item.value, str)}
            return names if all(isinstance(item, Constant) and not item.is_default for item in items) else None
        case _:
            return None
