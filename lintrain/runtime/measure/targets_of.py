"""Which loss a language model is trained with, and whether it is that alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lintrain.runtime.measure.model import base_model, task_of
from lintrain.runtime.measure.responses import Tokens
from lintrain.runtime.measure.seen import Iteration, LossCall
from lintrain.runtime.measure.standard_loss import standard_loss


def tokens_of(calls: Sequence[LossCall], loss: Any, model: Any) -> Tokens | None:
    """The call whose targets are whole numbers, with the doubt that other terms of the loss leave."""
    found = [call for call in calls if not call.target.is_floating_point() and call.target.numel() > 1]
    if not found:
        return None
    if task_of(base_model(model)) == "CausalLM":
        return Tokens(found[-1], "")
    alone = standard_loss(Iteration(losses=list(calls)), loss) if hasattr(loss, "grad_fn") else None
    return Tokens(alone or found[-1], "" if alone is not None else "the loss has other terms besides the next tokens")
