"""A data set made from another one: its history grows by a step, and the record keeps it.

Which rows a step keeps of a data set, if they are consecutive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.pipeline.dataset_rows import rows_of
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.data import Column, ColumnNames, Cut, Dataset, DatasetDict, Features, Step
from lintrain.pipeline.values.python import Absent, Constant, Range, Sequence, Value, is_missing, number_of
from lintrain.startup.lazy_pattern import lazy_pattern


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


def recolumned(made: Dataset, columns: dict[str, Column], *, is_complete: bool, opens: bool = False) -> Dataset:
    """Give a data set columns of its own; with `opens` there may be others than those of before."""
    made.columns = columns
    made.is_complete = is_complete
    made.rest = None if opens else made.unknown_columns
    made.shown = frozenset[str]() if opens else made.shown & columns.keys()
    # Formats belong to the columns of before: a new column with an old name is a new thing.
    made.read_as_text = {}
    return made


def added_since(listed: Value, dataset: Dataset) -> tuple[dict[str, Column], bool] | None:
    """The columns that a data set got after its names were listed, and whether no others are left without those.

    None if the list is that of another data set.
    """
    if not isinstance(listed, ColumnNames) or not isinstance(listed.dataset, Dataset):
        return None
    # The dictionary is shared between the splits of one loading, so names of `raw["train"]` also fit
    # `raw["test"]`.
    if not any(listed.dataset.read_as_text is ancestor.read_as_text for ancestor in dataset.lineage):
        return None
    taken = ((listed.dataset.columns or {}).keys() | dataset.shown) - listed.without
    columns = {name: column for name, column in (dataset.columns or {}).items() if name not in taken}
    # One that code left out of the list may be an unknown column of before.
    is_known = dataset.unknown_columns is listed.dataset.unknown_columns and listed.without <= columns.keys()
    return columns, dataset.is_complete or is_known


def listed_in(value: Value) -> Value:
    """The names that an argument lists: `features` is taken for its names."""
    return value.names if isinstance(value, Features) else value


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


def names_in(value: Value) -> Set[str] | None:
    """The column names that an argument lists, in its order; None if some of them are not known."""
    match value:
        case Absent() | Constant(value=None, default=None):
            return set()
        case Constant(value=str(name), default=None):
            return {name}
        case Features():
            return names_in(value.names)
        case Sequence(items=items, is_complete=True):
            # `select_columns` gives the columns in this order, and some losses tell them apart by it.
            listed = (item.value for item in items if isinstance(item, Constant) and isinstance(item.value, str))
            return (
                dict.fromkeys(listed).keys()
                if all(isinstance(item, Constant) and not item.default for item in items)
                else None
            )
        case _:
            return None


BOUNDS = lazy_pattern(r"(?P<first>-?\d{1,18})?(?P<first_percent>%)?:(?P<stop>-?\d{1,18})?(?P<stop_percent>%)?$")


def cut_of(call: Call, dataset: Dataset) -> Cut | None:
    """The rows that `select(range(…))`, `take(n)` or `skip(n)` keeps; None for other operations."""
    match call.path.rpartition(".")[2]:
        case "select":
            indices = call.value("indices", 0)
            return _of_range(indices, dataset) if isinstance(indices, Range) else Cut()
        case "take":
            return _between(Constant(0), call.value("n", 0), dataset)
        case "skip":
            start = call.value("n", 0)
            first = number_of(start)
            return Cut(int(first), None, rows_of(dataset), False, _default(start)) if first is not None else Cut()
        case _:
            return None


def _of_range(indices: Range, dataset: Dataset) -> Cut:
    # Every second row is no stretch: such a part overlaps with any other, and with none for certain.
    if not is_missing(indices.step) and number_of(indices.step) != 1:
        return Cut()
    return _between(Constant(0) if is_missing(indices.start) else indices.start, indices.stop, dataset)


def parts_of(call: Call, rows: int | None) -> tuple[int | None, int | None]:
    """How many rows `train_test_split` gives for training and for testing, as datasets 5.2 counts them.

    A share of the test rows is rounded up, one of the training rows down; what is not asked for is what is left.
    """
    train, test = call.value("train_size", 1), call.value("test_size", 0)
    if rows is None or call.is_open or _default(train) or _default(test):
        return None, None
    # Neither size is given: a quarter is for testing, as in scikit-learn.
    if is_missing(train):
        held_out = _share(Constant(0.25) if is_missing(test) else test, rows, math.ceil)
        return None if held_out is None else rows - held_out, held_out
    kept = _share(train, rows, math.floor)
    if is_missing(test):
        return kept, None if kept is None else rows - kept
    return kept, _share(test, rows, math.ceil)


def _share(asked: Value, rows: int, rounded: Callable[[float], int]) -> int | None:
    number = number_of(asked)
    count = number if isinstance(number, int) or number is None else rounded(number * rows)
    # A part that is empty or everything makes datasets raise: no count is better than a wrong one.
    return count if count is not None and 0 < count < rows else None


def _between(start: Value, stop: Value, dataset: Dataset) -> Cut:
    first, last = number_of(start), number_of(stop)
    if first is None or last is None:
        return Cut()
    return Cut(int(first), int(last), rows_of(dataset), False, _default(start) or _default(stop))


def _default(value: Value) -> Default | None:
    return value.default if isinstance(value, Constant) else None


def cut_by_text(text: str, rows: int | None) -> Cut:
    """The rows that `split="train[10%:20%]"` keeps, from the text in the brackets."""
    found = BOUNDS.match(text)
    if found is None:
        return Cut()
    is_percent = bool(found["first_percent"] or found["stop_percent"])
    first, stop = (int(found[name]) if found[name] else None for name in ("first", "stop"))
    whole = 100 if is_percent else rows
    if (first or 0) < 0 or (stop or 0) < 0:
        if whole is None:
            return Cut()
        # `train[-10%:]` counts from the end. With an unknown number of rows only percentages can be turned
        # around.
        first, stop = (max(0, whole + bound) if bound is not None and bound < 0 else bound for bound in (first, stop))
    return Cut(first or 0, stop, whole, is_percent)
