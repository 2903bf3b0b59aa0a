"""The framework of a loop, and the groups of its optimizers."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import OptimizerGroup
from lintrain.runtime.child.library import loaded
from lintrain.runtime.child.probe_session import ProbeSession


def framework(session: ProbeSession) -> str:
    """The framework of the loop: accelerate or Fabric if the script created one, otherwise torch."""
    if session.launcher:
        return session.launcher
    accelerate = loaded("accelerate.state")
    if accelerate is not None and accelerate.AcceleratorState._shared_state:
        return "accelerate"
    return "torch"


def group_of(group: dict[str, Any]) -> OptimizerGroup:
    """One parameter group: its peak rate and the one in force."""
    first = float(group["lr"])
    return OptimizerGroup(peak_of(group), first, float(group.get("weight_decay", 0.0)), len(group["params"]))


def peak_of(group: dict[str, Any]) -> float:
    """The highest learning rate of a group: `max_lr` of a one-cycle schedule, else the one before any schedule."""
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))
