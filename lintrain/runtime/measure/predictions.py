"""What the arrays of an evaluation hold: ignored entries, classes, bytes; and the memory that is left for them."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library

IGNORED = -100
"""The label that the losses of torch leave out."""

INTEGERS = "iu"

MOST_BYTES = 2**25
"""Larger predictions are not copied to try a metric function on them: logits over a whole vocabulary."""


def count_of(array: Any, wanted: int) -> int | None:
    """How often a whole number occurs in an array; None if it is no array of whole numbers."""
    if getattr(getattr(array, "dtype", None), "kind", "") not in tuple(INTEGERS):
        return None
    return int((array == wanted).sum())


def classes_in(array: Any) -> int | None:
    """How many distinct labels an array of whole numbers has, those that are ignored left out; None for others."""
    if getattr(getattr(array, "dtype", None), "kind", "") not in tuple(INTEGERS):
        return None
    return len({int(each) for each in array.reshape(-1).tolist()} - {IGNORED})


def change_by_ignored(function: Callable[..., Any], prediction: Any, metrics: Any) -> float | None:
    """How much a metric function's results change with twice as many ignored labels; None if it cannot be measured.

    The new ones stand behind the others: a right function does not see them. Logits are put right first, because a
    score of 0 has nothing to lose.
    """
    labels, predictions = getattr(prediction, "label_ids", None), getattr(prediction, "predictions", None)
    if not count_of(labels, IGNORED) or getattr(labels, "ndim", 0) < 2 or not is_mapping(metrics):
        return None
    if (bytes_of(predictions) or 0) > MOST_BYTES:
        return None
    # The metric is asked with perfect predictions: a score of 0 cannot fall further when ignored labels are counted
    # as wrong.
    right = _right_predictions(predictions, labels)
    try:
        before: Any = metrics if right is predictions else function(_with(prediction, right, labels))
        after: Any = function(_with(prediction, *_longer(right, labels)))
    except Exception:  # noqa: BLE001 - it takes these shapes only
        return None
    return _largest_difference(before, after) if is_mapping(before) and is_mapping(after) else None


def _right_predictions(predictions: Any, labels: Any) -> Any:
    """Logits whose largest is at the label of each token; predictions of another form stay as they are."""
    shape: tuple[int, ...] = tuple(getattr(predictions, "shape", (0,)))
    *outer, classes = shape or (0,)
    if tuple(outer) != labels.shape or int(labels.max()) >= classes:
        return predictions
    right = library("numpy").zeros_like(predictions)
    library("numpy").put_along_axis(right, labels.clip(0)[..., None], 1, axis=-1)
    return right


def _longer(predictions: Any, labels: Any) -> tuple[Any, Any]:
    """The same with as many ignored labels again; predictions that have an entry for each label grow with them."""
    numpy = library("numpy")
    more = numpy.concatenate([labels, numpy.full_like(labels, IGNORED)], axis=1)
    if getattr(predictions, "shape", ())[:2] != labels.shape[:2]:
        return predictions, more
    return numpy.concatenate([predictions, predictions], axis=1), more


def _with(prediction: Any, predictions: Any, labels: Any) -> Any:
    """Another `EvalPrediction`: it unpacks to a tuple that it made when it was built."""
    others = {name: given for name in ("inputs", "losses") if (given := getattr(prediction, name, None)) is not None}
    return type(prediction)(predictions=predictions, label_ids=labels, **others)


def _largest_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    pairs = [(_number(before[name]), _number(after.get(name))) for name in before]
    return max((abs(one - other) for one, other in pairs if one is not None and other is not None), default=None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, numbers.Real) and math.isfinite(float(value)) else None


def bytes_of(arrays: Any) -> int | None:
    """The memory that an array, or a tuple of arrays, takes; None if that is not known."""
    if is_row(arrays):
        sizes = [bytes_of(each) for each in arrays]
        return sum(size or 0 for size in sizes)
    size = getattr(arrays, "nbytes", None)
    return int(size) if isinstance(size, int) else None


def free_memory() -> int | None:
    """The memory that programs may still take, in bytes; None if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = next((line for line in lines if line.startswith("MemAvailable:")), "")
        return int(found.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        return _whole_memory()


def _whole_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None
