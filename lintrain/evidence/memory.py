"""What a training step holds in memory, projected for a given device.

The speed of a training run on the machine that probed it, and what it waited for.
"""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass

PROJECTION_ERROR = 0.15
"""The share by which a projection may be off its measured peak (`benchmarks/memory.py` holds it)."""


@dataclass(frozen=True, slots=True)
class ResidentModel:
    """One model that is in memory during training: its weights and buffers in bytes, and whether it trains."""

    name: str
    size: int
    trains: bool


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """The peak memory of tensors in a whole training step, in bytes.

    `device` is the memory of the device, None if none was named. `rows` and `tokens` are those of the batch; tokens is
    None for rows without them. At the peak `weights`, `gradients`, `optimizer` (its state) are in memory, and
    `activations` is the rest: what the backward pass needs, and intermediate results. `fixed` is what does not depend
    on the batch. `largest_batch` are the rows that just fit, 0 if not even one does, None if it is not known. `method`
    says how it is known: `projected` (tensors without values) or `counted` (the script's own steps). `in_step` says
    that the peak is in the optimizer's step.
    """

    method: str
    device: int | None
    peak: int
    rows: int
    tokens: int | None
    weights: int
    gradients: int
    optimizer: int
    activations: int
    fixed: int
    in_step: bool = False
    largest_batch: int | None = None
    models: tuple[ResidentModel, ...] = ()
    optimizer_name: str = ""
    without_weights: bool = False

    @property
    def batch(self) -> str:
        """Rows and tokens of the batch in words: `8 rows of 512 tokens`."""
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        return f"{rows} of {self.tokens} tokens" if self.tokens else rows

    @property
    def largest(self) -> str:
        """The largest batch that fits the device, in words."""
        if self.largest_batch is None:
            return "no batch is too large"
        if not self.largest_batch:
            return "not even one row fits"
        return f"{self.largest_batch} row{'' if self.largest_batch == 1 else 's'} would fit"

    @property
    def least(self) -> float:
        """The smallest peak that the projection's error leaves possible."""
        return self.peak * (1 - PROJECTION_ERROR)

    @property
    def most(self) -> float:
        """The largest peak that the projection's error leaves possible."""
        return self.peak * (1 + PROJECTION_ERROR)


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """The GPU of a pass: its name, its memory, and the most that torch held and reserved there, in bytes."""

    name: str
    memory: int
    allocated: int
    reserved: int


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
