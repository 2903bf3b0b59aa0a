"""The weights of a run: which train, which an optimizer holds, and what steps changed.

What the measured steps did: how far each layer moved, and whether anything moved that is not trained.

A learning-rate schedule, simulated to the end of the run on an optimizer without parameters.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import time
import warnings
from collections.abc import Collection, Mapping
from typing import Any, cast

from lintrain.evidence.run import LayerUpdate, OptimizerGroup, ScheduleEvidence
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.gradients import layer_of

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
            # In place: the optimizer and the script hold the parameter itself.
            weight.copy_(before[name])
            weight.grad = None


def pulls(weight: Any) -> bool:
    """Whether a gradient exceeds rounding noise relative to its weight (the bias of attention keys has no other)."""
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
    # Equal to the last bit: in bfloat16 a step that is rounded away leaves a weight exactly as it was.
    return {name for name, weight in known.items() if not weight.detach().equal(before[name])}


def changed_share(run: MeasuredRun, before: dict[str, Any], outside: tuple[str, ...] = ()) -> float | None:
    """Of the single weights that had a gradient in the last step: the share that is not what it was.

    Weights `outside` of every optimizer keep their gradients, and no step changes them, whatever their format is.
    """
    felt = moved = 0
    for name, weight in trainable(run).items():
        if weight.grad is not None and name in before and name not in outside:
            # Rows of an embedding that no token used have a gradient of 0, and are not expected to move.
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


MOST_FROZEN = 200_000_000
"""Weights that are not trained, at most so many, are added up before and after the steps: a second of CPU time."""


def updates(run: MeasuredRun, before: dict[str, Any], steps: int) -> tuple[LayerUpdate, ...]:
    """For each layer group whose weights were not all 0: the norm of its change over that of its weights, per step."""
    groups: dict[str, list[float]] = {}
    for name, weight in trainable(run).items():
        if name in before:
            # Squares are added up, so that a layer's norm is that of all its tensors together.
            moved, was = groups.setdefault(layer_of(name), [0.0, 0.0])
            distance = float((weight.detach().float() - before[name].float()).norm()) ** 2
            groups[layer_of(name)] = [moved + distance, was + float(before[name].float().norm()) ** 2]
    return tuple(
        LayerUpdate(layer, math.sqrt(moved / was) / max(1, steps)) for layer, (moved, was) in groups.items() if was
    )


class Frozen:
    """Sums over parameters that are not trained, and over the statistics of batch norms of which nothing is."""

    def __init__(self, run: MeasuredRun) -> None:
        self._run = run
        self._before = _sums(run)
        self._statistics = _statistics(run)

    def moved(self) -> tuple[str, ...] | None:
        """The names of those that are not what they were, and not trained by now; None if there are too many."""
        if self._before is None:
            return None
        after = _sums(self._run) or {}
        return tuple(name for name, was in self._before.items() if name in after and after[name] != was)

    def statistics(self) -> int:
        """How many batch norms without a trained parameter have taken up statistics."""
        after = _statistics(self._run)
        return sum(after.get(name, was) != was for name, was in self._statistics.items())


def _sums(run: MeasuredRun) -> dict[str, tuple[float, float]] | None:
    frozen = {name: weight.detach() for name, weight in run.model.named_parameters() if not weight.requires_grad}
    if sum(weight.numel() for weight in frozen.values()) > MOST_FROZEN:
        return None
    floats = {name: weight for name, weight in frozen.items() if weight.is_floating_point()}
    # Two numbers in place of a copy: a frozen model of 7 billion weights would take its memory twice. In double
    # precision, or small changes would drown in rounding.
    return {name: (float(weight.double().sum()), float(weight.double().norm())) for name, weight in floats.items()}


def _statistics(run: MeasuredRun) -> dict[str, tuple[float, float]]:
    kind = library("torch.nn").modules.batchnorm._BatchNorm
    found: dict[str, tuple[float, float]] = {}
    for name, part in run.model.named_modules():
        # Of a frozen batch norm only: one that trains is meant to follow the data.
        is_norm = isinstance(part, kind) and part.affine and not part.weight.requires_grad
        if is_norm and part.running_mean is not None:
            found[name] = (float(part.running_mean.double().sum()), float(part.running_var.double().sum()))
    return found


LEAST_NUMBERS = 16
MOST_NUMBERS = 200_000_000
"""Of a file with more, the rest is not searched for NaN."""


def damaged(given: Any, own: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of weights that become all 0 when they are loaded, and of those with NaN or infinity."""
    zeros, bad, left = list[str](), list[str](), MOST_NUMBERS
    for name, weight in given.items() if is_mapping(given) else ():
        if not has(weight, "is_floating_point") or not weight.is_floating_point() or weight.is_meta:
            continue
        left -= weight.numel()
        before = own.get(name)
        # Biases are often 0, matrices are not; and a matrix that was 0 before starts at zero on purpose.
        if weight.ndim > 1 and _is_zero(weight) and before is not None and not _is_zero(before):
            zeros.append(str(name))
        elif left > 0 and not math.isfinite(weight.sum()) and not bool(library("torch").isfinite(weight).all()):
            bad.append(str(name))
    return tuple(zeros), tuple(bad)


def _is_zero(weight: Any) -> bool:
    if weight.numel() < LEAST_NUMBERS or weight.is_meta:
        return False
    # Most weights are settled by their first number.
    return not bool(weight[(0,) * weight.ndim]) and not bool(weight.any())


def zero_layers(model: Any, fresh: Collection[str]) -> tuple[str, ...]:
    """The weights of linear layers and convolutions that a file filled with zeros; those in `fresh` it did not fill."""
    nn = library("torch.nn")
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d)
    names = (f"{name}.weight" for name, part in model.named_modules() if isinstance(part, kinds))
    own = dict(model.named_parameters())
    return tuple(
        name for name in names if name in own and name not in fresh and not ADDED.search(name) and _is_zero(own[name])
    )


ADDED = re.compile(r"lora|adapter|gate|zero", re.IGNORECASE)
"""Layers that start at zero on purpose."""
MOST_STEPS = 1_000_000
SECONDS = 2.0
POINTS = 100


def played_through(schedule: Any, steps: int) -> ScheduleEvidence | None:
    """The rates of a schedule that has not stepped yet; None if it follows a metric, or would take too long."""
    follows_metric = "metrics" in inspect.signature(schedule.step).parameters
    if not 0 < steps <= MOST_STEPS or follows_metric:
        return None
    # Shallow: a LambdaLR holds functions of the script, which cannot be copied deeply, and is only given another
    # optimizer.
    copied = copy.copy(schedule)
    copied.optimizer = _empty(schedule.optimizer)
    ends = time.perf_counter() + SECONDS
    rates = [_rate(copied)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no optimizer stepped before
        for _ in range(steps - 1):
            copied.step()
            rates.append(_rate(copied))
            # A schedule in pure Python over a million steps; a part of it would show a wrong peak, so nothing is
            # reported.
            if time.perf_counter() > ends:
                return None
    highest_at = max(range(steps), key=rates.__getitem__)
    shown = sorted({round(point * (steps - 1) / POINTS) for point in range(POINTS + 1)})
    points = tuple((step, rates[step]) for step in shown)
    return ScheduleEvidence(type(schedule).__name__, steps, points, rates[highest_at], highest_at)


def _empty(optimizer: Any) -> Any:
    """An optimizer with the same groups, each of one number."""
    torch = library("torch")
    groups = [
        {**{name: value for name, value in group.items() if name != "params"}, "params": [torch.zeros(1)]}
        for group in optimizer.param_groups
    ]
    # The groups are put in as they are: a constructor would add its own defaults to them.
    empty = torch.optim.SGD(groups[0]["params"], lr=0.0)
    empty.param_groups = groups
    return empty


def _rate(schedule: Any) -> float:
    return float(schedule.optimizer.param_groups[0]["lr"])


def group_evidence(optimizer: Any, group: Any, *, peak: float, first: float) -> OptimizerGroup:
    """One parameter group of an optimizer of torch, with its peak and its first rate."""
    epsilon, betas = group.get("eps"), group.get("betas")
    pair: list[Any] = list(cast("list[Any]", betas)) if isinstance(betas, tuple | list) else []
    name = type(attribute(optimizer, "optimizer", optimizer)).__name__  # accelerate wraps it
    return OptimizerGroup(
        learning_rate=peak,
        first_learning_rate=first,
        weight_decay=float(group.get("weight_decay", 0.0)),
        parameters=len(group["params"]),
        betas=(float(pair[0]), float(pair[1])) if len(pair) == 2 else None,
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else None,
        is_decoupled=bool(group.get("decoupled_weight_decay")) or name in ("AdamW", "SGD", "Lion"),
        formats=tuple(sorted({str(weight.dtype).removeprefix("torch.") for weight in group["params"]})),
    )
