"""Which rows a step keeps of a data set, where they lie side by side."""

from __future__ import annotations

import math
from collections.abc import Callable

from lintrain.interpreter.core.call import Call
from lintrain.pipeline.dataset_rows import rows_of
from lintrain.pipeline.values.data import Cut, Dataset
from lintrain.pipeline.values.python import Constant, Range, Value, is_missing, number_of
from lintrain.startup.lazy_pattern import lazy_pattern

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
            return Cut(int(first), None, rows_of(dataset), False, _is_default(start)) if first is not None else Cut()
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
    if rows is None or call.is_open or _is_default(train) or _is_default(test):
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
    return Cut(int(first), int(last), rows_of(dataset), False, _is_default(start) or _is_default(stop))


def _is_default(value: Value) -> bool:
    return isinstance(value, Constant) and value.is_default


def cut_by_text(text: str, rows: int | None) -> Cut:
    """The rows that `split="train[10%:20%]"` keeps, from what stands in the brackets."""
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
