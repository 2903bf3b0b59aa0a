"""The learning-rate schedules of a loop: how often each is stepped, and whether before or after its optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lintrain.evidence.run import ScheduleUse
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.library import attribute, has
from lintrain.startup.lazy_dataclass import dataclass


def peak_of(group: dict[str, Any]) -> float:
    """The highest learning rate of a group: `max_lr` of a one-cycle schedule, else the one before any schedule."""
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))


def rates_of(optimizer: Any) -> tuple[float, ...]:
    """The highest rate of each group of an optimizer, as far as it is known."""
    groups: list[dict[str, Any]] = attribute(optimizer, "param_groups", [])
    return tuple(peak_of(group) for group in groups)


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
    made_at: Location | None = None
    stepped_at: Location | None = None
    group_rates: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())


class Schedules:
    """Those that the script made, in this order."""

    def __init__(self) -> None:
        self._made: list[Following] = []

    def on_schedule(self, schedule: Any, before: tuple[float, ...] = ()) -> None:
        """A schedule is created, and the rates were these before; its steps are counted from now on."""
        # A subclass calls the constructor of its base, which is hooked too.
        if all(each.schedule is not schedule for each in self._made):
            rates = (before, rates_of(attribute(schedule, "optimizer", None)))
            self._made.append(Following(schedule, made_at=frame_location(users_frame()), group_rates=rates))

    def take_over(self, earlier: Schedules, optimizers: Sequence[Any]) -> None:
        """Follow what an earlier training left unused, and belongs to these optimizers."""
        for each in earlier._made:
            optimizer = attribute(each.schedule, "optimizer", None)
            if not each.steps and any(optimizer is own for own in optimizers) and each not in self._made:
                self._made.append(each)

    def on_schedule_step(
        self, schedule: Any, *, optimizer_steps: int, is_training: bool, at: Location | None = None
    ) -> None:
        """A schedule is about to be stepped; `at` is where, if the script does it and no library."""
        for each in self._made:
            if each.schedule is schedule:
                each.steps += 1
                each.stepped_at = each.stepped_at or at
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
                group_rates=each.group_rates,
                made_at=each.made_at,
                stepped_at=each.stepped_at,
            )
            for each in self._made
        )


def length_of(schedule: Any) -> int | None:
    """The number of steps after which a schedule ends: the one it stores, or the step from which its function stays
    0.
    """
    length = next((getattr(schedule, name) for name in LENGTHS if has(schedule, name)), _length_for_function(schedule))
    if isinstance(length, int):
        return length
    factors = _factors(schedule)
    # A function that is 0 up to the bound tells no end, nor does one that is still above 0 there.
    last = max((step for step, factor in enumerate(factors) if factor > 0), default=-1)
    return last + 1 if 0 <= last < len(factors) - 1 else None


def _length_for_function(schedule: Any) -> Any:
    """The number of steps that a schedule of transformers gives its function (transformers 5.23)."""
    function = next(iter(attribute(schedule, "lr_lambdas", ())), None)
    given: dict[str, Any] = attribute(function, "keywords", {})
    return given.get("num_training_steps")


def _peak_of(schedule: Any) -> int | None:
    """The step at which a LambdaLR first reaches its largest rate; None for others."""
    factors = _factors(schedule)
    return factors.index(max(factors)) if factors else None


def _factors(schedule: Any) -> list[float]:
    """What a `LambdaLR` multiplies the rate with, step by step."""
    function = next(iter(attribute(schedule, "lr_lambdas", ())), None)
    if function is None:
        return []
    return [float(function(step)) for step in range(MOST_STEPS)]
