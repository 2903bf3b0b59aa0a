"""A learning-rate schedule, simulated to the end of the run on an optimizer without parameters."""

from __future__ import annotations

import copy
import inspect
import time
import warnings
from typing import Any

from lintrain.evidence.run import ScheduleEvidence
from lintrain.runtime.child.library import library

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
    empty = torch.optim.SGD(groups[0]["params"], lr=0.0)
    empty.param_groups = groups
    return empty


def _rate(schedule: Any) -> float:
    return float(schedule.optimizer.param_groups[0]["lr"])
