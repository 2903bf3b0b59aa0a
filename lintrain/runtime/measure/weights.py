"""The weights of a run: which train, which an optimizer holds, and what steps changed."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.child.measured_run import MeasuredRun

SMALLEST_PULL = 1e-6
FLOAT32_ROUNDING = 2.0**-23


def trainable(run: MeasuredRun) -> dict[str, Any]:
    """The parameters that training may change."""
    return {name: weight for name, weight in run.model.named_parameters() if weight.requires_grad}


def snapshot(run: MeasuredRun) -> dict[str, Any]:
    """Copies of the trainable weights."""
    return {name: weight.detach().clone() for name, weight in trainable(run).items()}


def restore(run: MeasuredRun, before: dict[str, Any]) -> None:
    """Restore the weights of a snapshot and drop all gradients."""
    with library("torch").no_grad():
        for name, weight in trainable(run).items():
            weight.copy_(before[name])
            weight.grad = None


def pulls(weight: Any) -> bool:
    """Whether a gradient is more than rounding noise beside its weight (the bias of attention keys has no other)."""
    if weight.grad is None:
        return False
    return bool(weight.grad.float().norm() > SMALLEST_PULL * weight.detach().float().norm().clamp(min=1e-6))


def is_felt(optimizer: Any, weight: Any) -> bool:
    """Whether a step is larger than float32 rounds off; plain SGD alone makes steps as small as its gradients."""
    if type(optimizer).__name__ != "SGD" or weight.grad.is_sparse:
        return True
    rate = max(float(group["lr"]) for group in optimizer.param_groups)
    return bool((rate * weight.grad.float().abs() > FLOAT32_ROUNDING * weight.detach().float().abs()).any())


def changed(run: MeasuredRun, before: dict[str, Any]) -> set[str]:
    """The names of the weights that have changed."""
    known = {name: weight for name, weight in trainable(run).items() if name in before}
    return {name for name, weight in known.items() if not weight.detach().equal(before[name])}


def changed_share(run: MeasuredRun, before: dict[str, Any]) -> float | None:
    """Of the single weights that had a gradient in the last step: the share that is not what it was."""
    felt = moved = 0
    for name, weight in trainable(run).items():
        if weight.grad is not None and name in before:
            had_gradient = weight.grad != 0
            felt += int(had_gradient.sum())
            moved += int((had_gradient & (weight.detach() != before[name])).sum())
    return moved / felt if felt else None


def non_finite(run: MeasuredRun) -> int:
    """How many trainable tensors hold NaN or infinity."""
    return sum(not bool(library("torch").isfinite(weight.detach()).all()) for weight in trainable(run).values())


def outside_optimizer(run: MeasuredRun) -> tuple[str, ...]:
    """Trainable weights that no optimizer steps."""
    groups = [group for optimizer in run.optimizers for group in optimizer.param_groups]
    inside = {id(weight) for group in groups for weight in group["params"]}
    return tuple(name for name, weight in trainable(run).items() if id(weight) not in inside)
