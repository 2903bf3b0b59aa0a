"""The learning-rate schedules of a loop: how often each is stepped, and whether before or after its optimizer."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import ScheduleUse
from lintrain.startup.lazy_dataclass import dataclass

LENGTHS = ("total_steps", "T_max", "total_iters")
"""Attributes of torch's schedules that say after how many of their steps they end."""

MOST_STEPS = 20_000
"""Steps of a LambdaLR that are evaluated: 10 ms."""


@dataclass(eq=False)
class Following:
    """One schedule, with what it did in the loop."""

    schedule: Any
    steps: int = 0
    early: int = 0
    while_training: int = 0


class Schedules:
    """Those that the script made, in this order."""

    def __init__(self) -> None:
        self._made: list[Following] = []

    def on_schedule(self, schedule: Any) -> None:
        """A schedule is created; its steps are counted from now on."""
        if all(each.schedule is not schedule for each in self._made):
            self._made.append(Following(schedule))

    def on_schedule_step(self, schedule: Any, *, optimizer_steps: int, is_training: bool) -> None:
        """A schedule is about to be stepped."""
        for each in self._made:
            if each.schedule is schedule:
                each.steps += 1
                each.early += not optimizer_steps
                each.while_training += is_training

    def uses(self) -> tuple[ScheduleUse, ...]:
        """What became of each."""
        return tuple(
            ScheduleUse(
                name=type(each.schedule).__name__,
                steps=each.steps,
                steps_before_optimizer=each.early,
                steps_while_training=each.while_training,
                length=length_of(each.schedule),
                peak=_peak_of(each.schedule),
            )
            for each in self._made
        )


def length_of(schedule: Any) -> int | None:
    """The number of steps after which a schedule ends: the one it stores, or the step from which its function stays
    0.
    """
    length = next(
        (getattr(schedule, name) for name in LENGTHS if hasattr(schedule, name)), _length_for_function(schedule)
    )
    if isinstance(length, int):
        return length
    factors = _factors(schedule)
    last = max((step for step, factor in enumerate(factors) if factor > 0), default=-1)
    return last + 1 if 0 <= last < len(factors) - 1 else None


def _length_for_function(schedule: Any) -> Any:
    """The number of steps that a schedule of transformers gives its function (transformers 5.23)."""
    function = next(iter(getattr(schedule, "lr_lambdas", ())), None)
    given: dict[str, Any] = getattr(function, "keywords", {})
    return given.get("num_training_steps")


def _peak_of(schedule: Any) -> int | None:
    """The step at which a LambdaLR first reaches its largest rate; None for others."""
    factors = _factors(schedule)
    return factors.index(max(factors)) if factors else None


def _factors(schedule: Any) -> list[float]:
    """What a `LambdaLR` multiplies the rate with, step by step."""
    function = next(iter(getattr(schedule, "lr_lambdas", ())), None)
    if function is None:
        return []
    return [float(function(step)) for step in range(MOST_STEPS)]
