"""The outputs of a model and its loss."""

from __future__ import annotations

import math
from typing import Any

from lintrain.evidence.run import CLASSIFICATION_TASKS
from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.measure.model import task_of


def number(loss: Any) -> float:
    """A loss as a float; of several entries their mean."""
    return float(loss.detach().float().mean()) if hasattr(loss, "detach") else float(loss)


def shape_of(output: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names in a model's output, and the shape of its logits."""
    if is_mapping(output):
        return tuple(output), tuple(getattr(output.get("logits"), "shape", ()))
    parts = output if is_row(output) else ()
    return (), next((tuple(part.shape) for part in parts if getattr(part, "ndim", 0) > 1), ())


def chance_of(model: Any) -> float | None:
    """ln(classes) for a classification head under cross-entropy; ln 2 for several labels at once; else None."""
    config = getattr(model, "config", None)
    classes = getattr(config, "num_labels", None)
    if task_of(model) not in CLASSIFICATION_TASKS or not isinstance(classes, int) or classes < 2:
        return None
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return math.log(2)
    return math.log(classes) if getattr(config, "problem_type", None) != "regression" else None
