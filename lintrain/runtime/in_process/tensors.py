"""Restore tensors and random generators."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.library import library, loaded

Restore = Callable[[], None]


def keep_tensor(tensor: Any) -> Restore:
    """Set the gradient aside; give values, storage, gradient, hooks and `requires_grad` back afterwards."""
    # A tensor inside of a graph is computed again; one without values has none to restore.
    if not tensor.is_leaf or tensor.is_meta:
        return _nothing
    grad, requires_grad, hooks = tensor.grad, tensor.requires_grad, tensor._backward_hooks
    after: Any = getattr(tensor, "_post_accumulate_grad_hooks", None)
    tensor.grad = None
    data = tensor.data  # the same storage: holds it where the tensor gets another
    values = data.clone()

    def restore() -> None:
        with library("torch").no_grad():
            if not _is_same(data, values):
                data.copy_(values)
            if tensor.device != data.device or tensor.dtype != data.dtype or tensor.data_ptr() != data.data_ptr():
                tensor.data = data
        if tensor.requires_grad != requires_grad:
            tensor.requires_grad_(requires_grad)
        tensor.grad = grad
        if tensor._backward_hooks is not hooks:
            tensor._backward_hooks = hooks
        if getattr(tensor, "_post_accumulate_grad_hooks", None) is not after:
            tensor._post_accumulate_grad_hooks = after

    return restore


def _is_same(data: Any, values: Any) -> bool:
    """Equal to the last bit; a NaN equals nothing, and is written again."""
    return bool(data.shape == values.shape and data.equal(values))


def _nothing() -> None:
    return


def keep_random_stream(value: Any) -> Restore | None:
    """How to put a generator of random numbers back; None for anything else."""
    torch, numpy = loaded("torch"), loaded("numpy.random")
    if isinstance(value, random.Random):
        state = value.getstate()
        return lambda: value.setstate(state)
    if torch is not None and torch.Generator in type(value).__mro__:  # `isinstance` takes 4 ms (torch 2.13)
        tensor = value.get_state()
        return lambda: _set(value, tensor)
    if numpy is not None and isinstance(value, numpy.Generator):
        bits = value.bit_generator
        held = bits.state
        return lambda: setattr(bits, "state", held)
    if numpy is not None and isinstance(value, numpy.RandomState):
        legacy = value.get_state()
        return lambda: value.set_state(legacy)
    return None


def _set(generator: Any, state: Any) -> None:
    generator.set_state(state)
