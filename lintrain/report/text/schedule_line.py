"""The learning rate over a run as one line: a small picture, and the rate at five points of the run."""

from __future__ import annotations

import math

from lintrain.evidence.run import ScheduleEvidence
from lintrain.report.text.style import Style

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.,-=+*#"
"""As many heights, for terminals that have nothing but ASCII."""
CELLS = 24


def picture_of(schedule: ScheduleEvidence, style: Style, cells: int = CELLS) -> str:
    """One sign for each part of the run, as high as the rate is there; the lowest stands for 0 alone."""
    signs = BLOCKS if style.unicode else LETTERS
    rates = [schedule.rate_at(cell / (cells - 1)) for cell in range(cells)]
    return "".join(_sign(rate / schedule.highest if schedule.highest > 0 else 0.0, signs) for rate in rates)


def _sign(share: float, signs: str) -> str:
    if not math.isfinite(share):
        return "?"
    return signs[0] if share <= 0 else signs[max(1, min(math.ceil(share * (len(signs) - 1)), len(signs) - 1))]


def rates_said(schedule: ScheduleEvidence) -> str:
    """The learning rate when none, a tenth, half, nine tenths and all of the run are over."""
    return ", ".join(f"{_short(schedule.rate_at(share))} at {share:.0%}" for share in SHARES)


def _short(rate: float) -> str:
    return f"{rate:.2g}"


def is_constant(schedule: ScheduleEvidence) -> bool:
    """Whether the rate stays what it is all through the run."""
    return all(rate == schedule.highest for _, rate in schedule.rates)
