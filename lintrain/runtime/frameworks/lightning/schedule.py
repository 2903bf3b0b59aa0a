"""The schedule of a run of Lightning, played through over the steps that the whole run would take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lintrain.evidence.run import ScheduleEvidence
from lintrain.runtime.measure.schedule import played_through

NESTED = ("_schedulers", "schedulers")


def schedule_evidence(configured: Any, steps: int | None, epochs: int | None) -> ScheduleEvidence | None:
    """The rates by optimizer step; None where the run has no known end, or the schedule drives others or a metric."""
    if steps is None or configured.reduce_on_plateau or any(hasattr(configured.scheduler, name) for name in NESTED):
        return None
    if configured.interval == "step":
        every = int(configured.frequency)
    elif epochs is None:
        return None
    else:
        every = int(configured.frequency) * max(1, steps // epochs)
    played = played_through(configured.scheduler, -(-steps // every))
    if played is None:
        return None
    rates = tuple((step * every, rate) for step, rate in played.rates)
    return replace(played, steps=steps, rates=rates, highest_at=played.highest_at * every)
