"""Losses that the probe knows: a plain cross-entropy that goes backward, and what it is at chance."""

from __future__ import annotations

import math
from typing import Any

from lintrain.runtime.measure.seen import Iteration, LossCall


def standard_loss(iteration: Iteration, loss: Any) -> LossCall | None:
    """The plain cross-entropy that goes backward, alone or divided; None where the loss is made of more."""
    for call in iteration.losses:
        if call.name != "cross_entropy" or call.options.get("weight") is not None:
            continue
        if call.options.get("label_smoothing"):
            continue
        if call.result is loss or _divides(loss, call.result):
            return call
    return None


def _divides(loss: Any, result: Any) -> bool:
    node = loss.grad_fn
    return node is not None and node.name() == "DivBackward0" and node.next_functions[0][0] is result.grad_fn


def chance_of(call: LossCall | None) -> float | None:
    """ln(classes); None for other losses."""
    if call is None or call.input.ndim < 2 or call.input.shape[1] < 2:
        return None
    return math.log(call.input.shape[1])
