"""What the arrays of an evaluation hold: ignored entries, classes, bytes; and the memory that is left for them.

What a metric is given and gives back: shapes, formats, classes, numbers.

The outputs of a model and its loss.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.evidence.run import CLASSIFICATION_TASKS
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.measure.model import task_of

IGNORED = -100
"""The label that the losses of torch leave out."""

INTEGERS = "iu"

MOST_BYTES = 2**25
"""Larger predictions are not copied to try a metric function on them: logits over a whole vocabulary."""


def count_of(array: Any, wanted: int) -> int | None:
    """How often a whole number occurs in an array; None if it is no array of whole numbers."""
    if attribute(attribute(array, "dtype", None), "kind", "") not in tuple(INTEGERS):
        return None
    return int((array == wanted).sum())


def classes_in(array: Any) -> int | None:
    """How many distinct labels an array of whole numbers has, those that are ignored left out; None for others."""
    if attribute(attribute(array, "dtype", None), "kind", "") not in tuple(INTEGERS):
        return None
    return len({int(each) for each in array.reshape(-1).tolist()} - {IGNORED})


def change_by_ignored(function: Callable[..., Any], prediction: Any, metrics: Any) -> float | None:
    """How much a metric function's results change with twice as many ignored labels; None if it cannot be measured.

    The new ones stand behind the others: a right function does not see them. Logits are put right first, because a
    score of 0 has nothing to lose.
    """
    labels, predictions = attribute(prediction, "label_ids", None), attribute(prediction, "predictions", None)
    if not count_of(labels, IGNORED) or attribute(labels, "ndim", 0) < 2 or not is_mapping(metrics):
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


FAR = 1_000.0
"""Beyond every threshold that a script may compare an output with."""


def change_by_opposite(function: Callable[..., Any], prediction: Any, metrics: Any) -> float | None:
    """How much a metric function's results change from right predictions to wrong ones; None if it cannot be measured.

    For one output per row: far above 0 for the higher labels and far below for the others, and the other way round.
    """
    predictions: Any = attribute(prediction, "predictions", None)
    labels: Any = attribute(prediction, "label_ids", None)
    is_one = tuple(attribute(predictions, "shape", ()))[1:] == (1,) and predictions.dtype.kind == "f"
    if not is_one or attribute(labels, "size", 0) != predictions.size or not is_mapping(metrics):
        return None
    sides = library("numpy").where(labels.reshape(predictions.shape) >= labels.mean(), FAR, -FAR)
    right = sides.astype(predictions.dtype)
    try:
        before: Any = function(_with(prediction, right, labels))
        after: Any = function(_with(prediction, -right, labels))
    except Exception:  # noqa: BLE001 - as above
        return None
    return _largest_difference(before, after) if is_mapping(before) and is_mapping(after) else None


def _right_predictions(predictions: Any, labels: Any) -> Any:
    """Logits whose largest is at the label of each token; predictions of another form stay as they are."""
    shape: tuple[int, ...] = tuple(attribute(predictions, "shape", (0,)))
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
    if attribute(predictions, "shape", ())[:2] != labels.shape[:2]:
        return predictions, more
    return numpy.concatenate([predictions, predictions], axis=1), more


def _with(prediction: Any, predictions: Any, labels: Any) -> Any:
    """Another `EvalPrediction`: it unpacks to a tuple that it made when it was built."""
    others = {name: given for name in ("inputs", "losses") if (given := attribute(prediction, name, None)) is not None}
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
    size = attribute(arrays, "nbytes", None)
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
            numbers = wanted.detach().cpu().numpy() if has(wanted, "detach") else wanted
            found.update(classes=classes_in(numbers), ignored=count_of(numbers, IGNORED))
    return found


def as_array(value: Any) -> Any:
    """A tensor or an array as it is, a list of numbers as an array; None for anything else."""
    if has(value, "shape") and has(value, "dtype"):
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
        named = {str(name): _metric_number(value) for name, value in result.items()}
        return {name: value for name, value in named.items() if value is not None}
    bare = _metric_number(result)
    return {} if bare is None else {"": bare}


def _metric_number(value: Any) -> float | None:
    if value is None or math.prod(attribute(value, "shape", ())) != 1:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def number(loss: Any) -> float:
    """A loss as a float; of several entries their mean."""
    return float(loss.detach().float().mean()) if has(loss, "detach") else float(loss)


def shape_of(output: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names in a model's output, and the shape of its logits."""
    if is_mapping(output):
        return tuple(output), tuple(attribute(output.get("logits"), "shape", ()))
    parts = output if is_row(output) else ()
    return (), next((tuple(part.shape) for part in parts if attribute(part, "ndim", 0) > 1), ())


def chance_of(model: Any) -> float | None:
    """ln(classes) for a classification head under cross-entropy; ln 2 for several labels at once; else None."""
    config = attribute(model, "config", None)
    classes = attribute(config, "num_labels", None)
    if task_of(model) not in CLASSIFICATION_TASKS or not isinstance(classes, int) or classes < 2:
        return None
    if attribute(config, "problem_type", None) == "multi_label_classification":
        return math.log(2)
    return math.log(classes) if attribute(config, "problem_type", None) != "regression" else None
