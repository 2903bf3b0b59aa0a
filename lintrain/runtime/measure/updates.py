"""What the measured steps did: how far each layer moved, and whether anything moved that is not trained."""

from __future__ import annotations

import math
from typing import Any

from lintrain.evidence.run import LayerUpdate
from lintrain.runtime.child.library import library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.gradients import layer_of
from lintrain.runtime.measure.weights import trainable

MOST_FROZEN = 200_000_000
"""Weights that are not trained, at most so many, are added up before and after the steps: a second of CPU time."""


def updates(run: MeasuredRun, before: dict[str, Any], steps: int) -> tuple[LayerUpdate, ...]:
    """For each layer group whose weights were not all 0: the norm of its change over that of its weights, per step."""
    groups: dict[str, list[float]] = {}
    for name, weight in trainable(run).items():
        if name in before:
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
    return {name: (float(weight.double().sum()), float(weight.double().norm())) for name, weight in floats.items()}


def _statistics(run: MeasuredRun) -> dict[str, tuple[float, float]]:
    kind = library("torch.nn").modules.batchnorm._BatchNorm
    found: dict[str, tuple[float, float]] = {}
    for name, part in run.model.named_modules():
        is_norm = isinstance(part, kind) and part.affine and not part.weight.requires_grad
        if is_norm and part.running_mean is not None:
            found[name] = (float(part.running_mean.double().sum()), float(part.running_var.double().sum()))
    return found
