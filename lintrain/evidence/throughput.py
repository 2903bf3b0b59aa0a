"""The speed of a training run on the machine that probed it, and what it waited for."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ThroughputEvidence:
    """Seconds of wall time on this machine's CPU: one batch of the loader, and one step on it.

    The loader runs without worker processes, whatever `workers` the script requested. `synchronizing` are calls of the
    script's own code in one step that make a device wait (`item`, `cpu`, …), by name; `operators` the operations of
    torch that took longest, each with its share of the step.
    """

    rows: int
    tokens: int | None
    batch_seconds: float
    step_seconds: float
    workers: int
    batches: int
    synchronizing: dict[str, float]
    operators: tuple[tuple[str, float], ...] = ()

    @property
    def rows_per_second(self) -> float:
        """Rows trained on in a second, with the time that they took to load."""
        return self.rows / (self.batch_seconds + self.step_seconds)

    @property
    def waiting(self) -> float:
        """The share of time that training waits for the loader, which runs without worker processes."""
        return self.batch_seconds / (self.batch_seconds + self.step_seconds)
