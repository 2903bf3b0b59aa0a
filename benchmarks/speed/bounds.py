"""What the measurements have to reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Bound:
    """A measured value and how far it may go; `unit` says what it counts."""

    name: str
    value: float
    unit: str = "times"
    most: float = inf
    least: float = 0.0

    @property
    def is_missed(self) -> bool:
        """Whether the value lies beyond."""
        return not self.least <= self.value <= self.most

    def __str__(self) -> str:
        """The value beside its bound, in a line."""
        bound = (
            f"at most {self.most:g}" if self.most < inf else f"at least {self.least:g}" if self.least else "no bound"
        )
        return f"{'missed: ' if self.is_missed else ''}{self.name}: {self.value:.2f} {self.unit} ({bound})"


def conclude(bounds: Iterable[Bound]) -> int:
    """Print every bound; the exit code says whether one is missed."""
    told = list(bounds)
    print()
    for bound in told:
        print(bound)
    return 1 if any(bound.is_missed for bound in told) else 0
