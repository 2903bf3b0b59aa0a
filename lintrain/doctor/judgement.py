"""One judgement about a run, and what the judges share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from lintrain.doctor.record import Point
from lintrain.model.level import Level
from lintrain.startup.lazy_dataclass import dataclass

FEW = 4
"""Points below which a curve tells nothing about its course."""

ENOUGH = 8


@dataclass(frozen=True, slots=True)
class Judgement:
    """What happened, why it matters, and what to do; `curves` show it, `page` is the rule about a frequent cause."""

    name: str
    level: Level
    message: str
    why: str
    help: str
    curves: tuple[str, ...] = ()
    page: str = ""


def at(point: Point) -> str:
    """Where a point is, in words: the step, and the epoch where it is known."""
    if point.epoch == point.step:
        return f"epoch {point.epoch:.3g}"
    step = f"step {point.step:,.0f}"
    return step if point.epoch is None else f"{step} (epoch {point.epoch:.3g})"


def middle(values: Sequence[float]) -> float:
    """Their median; NaN if there are none."""
    return median(values) if values else math.nan


def first_and_last(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The first and the last quarter."""
    size = max(1, len(values) // 4)
    return list(values[:size]), list(values[-size:])


def short(value: float) -> str:
    """A number in three digits."""
    return "NaN" if math.isnan(value) else f"{value:.3g}"
