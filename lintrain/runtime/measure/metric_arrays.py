"""What a metric is given and gives back: shapes, formats, classes, numbers."""

from __future__ import annotations

import math
from typing import Any

from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.measure.predictions import IGNORED, classes_in, count_of

MOST_ENTRIES = 200_000
"""Classes of more are not counted, and lists that are longer not made arrays."""


def described(predictions: Any, references: Any) -> dict[str, Any]:
    """The fields of `MetricUse` that describe the two arrays; nothing for values without a shape, such as texts."""
    guessed, wanted = as_array(predictions), as_array(references)
    found: dict[str, Any] = {}
    if guessed is not None:
        found.update(predictions_shape=tuple(guessed.shape), predictions_dtype=dtype_of(guessed))
    if wanted is not None:
        found.update(references_shape=tuple(wanted.shape), references_dtype=dtype_of(wanted))
        found["references"] = math.prod(wanted.shape)
        if found["references"] <= MOST_ENTRIES:
            numbers = wanted.detach().cpu().numpy() if hasattr(wanted, "detach") else wanted
            found.update(classes=classes_in(numbers), ignored=count_of(numbers, IGNORED))
    return found


def as_array(value: Any) -> Any:
    """A tensor or an array as it is, a list of numbers as an array; None for anything else."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return value
    if not is_row(value) or not value or len(value) > MOST_ENTRIES:
        return None
    torch = loaded("torch")
    plain: list[Any] = [
        each.detach().cpu().numpy() if torch is not None and isinstance(each, torch.Tensor) else each for each in value
    ]
    try:
        made = library("numpy").asarray(plain)
    except (TypeError, ValueError):  # rows of several lengths
        return None
    return made if made.dtype.kind in "biuf" else None


def dtype_of(array: Any) -> str:
    """The name of an array's format."""
    return str(array.dtype).removeprefix("torch.")


def numbers_in(result: Any) -> dict[str, float]:
    """The numbers that a metric gave, by name; a bare one under ""."""
    if is_mapping(result):
        named = {str(name): _number(value) for name, value in result.items()}
        return {name: value for name, value in named.items() if value is not None}
    bare = _number(result)
    return {} if bare is None else {"": bare}


def _number(value: Any) -> float | None:
    if value is None or math.prod(getattr(value, "shape", ())) != 1:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
