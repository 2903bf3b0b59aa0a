"""The weights of classes that a loss is called with."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.library import attribute
from lintrain.runtime.measure.seen import LossCall

WEIGHTED = frozenset({"cross_entropy", "nll_loss"})
BINARY = "binary_cross_entropy_with_logits"
MOST_CLASSES = 1_000


def class_weights(call: LossCall) -> tuple[float, ...]:
    """One weight for each class, those of 0 and 1 for `pos_weight`; () for a loss without such weights."""
    if call.name in WEIGHTED:
        # The layers of torch give it by name, a script may give it as the third argument.
        return _numbers(call.options.get("weight", next(iter(call.rest), None)))
    # `weight` of this loss is one for each row or output; of several `pos_weight`, each belongs to an output.
    positive = _numbers(call.options.get("pos_weight")) if call.name == BINARY else ()
    return (1.0, *positive) if len(positive) == 1 else ()


def _numbers(weights: Any) -> tuple[float, ...]:
    if attribute(weights, "ndim", None) not in (0, 1) or weights.numel() > MOST_CLASSES:
        return ()
    return tuple(float(each) for each in weights.detach().reshape(-1).tolist())
