"""The measurements that a person asks for by name, because they take longer than one batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

OVERFIT_STEPS = 20
ALL = "all"
EXTRAS: Mapping[str, str] = {
    "overfit": f"{OVERFIT_STEPS} steps on one batch of every label",
    "determinism": "the first steps of two runs of the script, and what differs between them",
    "ranks": "the first steps on two processes: their weights, rows, gradients, and which of them writes files",
    "checkpoint": "the step after a checkpoint, in the same run and in a process that resumes from it",
    "memory": "the peak memory of a training step; with --device-memory the largest batch that fits",
    "throughput": "how long batches and steps take on this machine, and which operations take longest",
}
"""What each measures, by the name of its stage, in the order in which they are executed."""


class NoExtraError(ValueError):
    """A name that is no extra's; the text says which there are."""


def read_extras(words: Iterable[str]) -> tuple[str, ...]:
    """The extras that a person named, with commas or as several words; raises NoExtraError."""
    names = {name.strip() for word in words for name in word.split(",") if name.strip()}
    if unknown := names - {*EXTRAS, ALL}:
        raise NoExtraError(f"{min(unknown)}: no such measurement; there are {', '.join(EXTRAS)}, and {ALL}")
    return tuple(name for name in EXTRAS if name in names or ALL in names)
