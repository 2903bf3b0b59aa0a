"""Losses that the probe knows: a plain cross-entropy that goes backward, and what it is at chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lintrain.runtime.measure.model import base_model, task_of
from lintrain.runtime.measure.responses import Tokens
from lintrain.runtime.measure.seen import Iteration, LossCall


def standard_loss(iteration: Iteration, loss: Any) -> LossCall | None:
    """The plain cross-entropy that goes backward, alone or divided; None if the loss is made of more."""
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


def tokens_of(calls: Sequence[LossCall], loss: Any, model: Any) -> Tokens | None:
    """The call whose targets are whole numbers, with the doubt that other terms of the loss leave."""
    found = [call for call in calls if not call.target.is_floating_point() and call.target.numel() > 1]
    if not found:
        return None
    if task_of(base_model(model)) == "CausalLM":
        return Tokens(found[-1], "")
    alone = standard_loss(Iteration(losses=list(calls)), loss) if hasattr(loss, "grad_fn") else None
    return Tokens(alone or found[-1], "" if alone is not None else "the loss has other terms besides the next tokens")
