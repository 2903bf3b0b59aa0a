"""What a probe measures of a learning-rate schedule: it is played through without training."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ScheduleEvidence:
    """The learning rate of the first parameter group over the planned optimizer steps.

    `steps` are all that the run will take; `rates` are pairs of step (from 0) and learning rate, at most 101 and evenly
    spaced, the first and the last among them. `highest` is the greatest rate that is reached, first at `highest_at`.
    """

    name: str
    steps: int
    rates: tuple[tuple[int, float], ...]
    highest: float
    highest_at: int

    def rate_at(self, share: float) -> float:
        """The learning rate when this share (0 to 1) of the run is over."""
        wanted = share * (self.steps - 1)
        return min(self.rates, key=lambda pair: abs(pair[0] - wanted))[1]

    @property
    def last(self) -> float:
        """The learning rate of the last step."""
        return self.rates[-1][1]
