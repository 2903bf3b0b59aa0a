"""When enough of a loop was measured, and when it was followed for long enough."""

from __future__ import annotations

import time
from collections import Counter

STEPS = 4
"""Optimizer steps after which enough of a loop was measured."""
BATCHES = 4
EVALUATION_BATCHES = 2
SECONDS = 30.0
"""A run is not followed for longer than this, from its first backward pass on."""
MOST_ROUNDS = 3
"""How often the training loader may be read again until a backward pass shows that the loop trains once more."""
MOST_STEPS_ON_A_BATCH = 32


class Bounds:
    """Asked by the watch; `counts` are those of the loop's effects."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._began = 0.0
        self._steps_before = 0

    def start(self) -> None:
        """A run is followed from now on."""
        self._began = time.perf_counter()

    def on_batch(self) -> None:
        """The loop asks its loader for a batch."""
        self._steps_before = self._counts["steps"]

    def is_late(self) -> bool:
        """Whether the run was followed for as long as it may be."""
        return time.perf_counter() - self._began > SECONDS

    def why_no_evaluation(self) -> str:
        """Why there was no evaluation when a loop is left."""
        if self.is_late():
            return f"the loop was followed for {SECONDS:g} s, which is the limit"
        return "no other loader was read after the first batches of training"

    def has_seen_enough(self, *, is_wasteful: bool) -> bool:
        """Whether the loop's loader may end: enough steps were taken, or none can be, or it took too long."""
        is_taught = self._counts["steps"] >= STEPS or is_wasteful
        return (is_taught and self._counts["batches"] >= BATCHES) or self.is_late()

    def has_to_end(self, *, has_loader: bool) -> bool:
        """Whether a loop that reads no loader any more, which could end, was followed for long enough."""
        steps = self._counts["steps"] - (self._steps_before if has_loader else 0)
        most = MOST_STEPS_ON_A_BATCH if has_loader else STEPS
        return steps >= most or (steps >= STEPS and self.is_late())

    def is_stuck(self, *, has_loader: bool) -> bool:
        """Whether a loop without a loader takes too long within its first steps, as with a closure."""
        return not has_loader and self.is_late()
