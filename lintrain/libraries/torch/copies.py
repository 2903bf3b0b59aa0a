"""Tensors that are copied, and tensors that get other numbers where they are."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import method
from lintrain.libraries.numpy.arrays import mapped
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Value


@method(Tensor, "copy", "clone")
def _copy(call: Call) -> Value:
    """The same numbers in a tensor of its own: what fills one leaves the other as it is."""
    kept = mapped(call, {}, None)
    return replace(kept) if isinstance(kept, Tensor) else kept


@method(Tensor, "zero_", "fill_", "copy_", "uniform_", "normal_", "random_", "exponential_")
def _fill(call: Call) -> Value:
    """`x.fill_(0.1)`: the tensor itself, whose numbers no longer come from what made it before."""
    filled = call.receiver
    if isinstance(filled, Tensor):
        filled.made = None
    return filled
