"""Two starts of one script beside one another: whether the second does the same, and from where on it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import DeterminismEvidence
from lintrain.runtime.parent.request import TrailRequest
from lintrain.runtime.parent.timeline import Trail, differing, drawn_from

if TYPE_CHECKING:
    from lintrain.runtime.parent.again import Starts

STEPS = 3


def compare_starts(starts: Starts) -> Mapping[str, Any]:  # Any: evidence by the name of its field
    """Two passes of the first steps, each in a folder of its own."""
    first = starts.follow(starts.folder(), TrailRequest("repeat", STEPS))
    first.demand(1, "the first start")
    second = starts.follow(starts.folder(), TrailRequest("repeat", STEPS))
    second.demand(1, "the second start")
    return {"determinism": starts_evidence(first, second)}


def starts_evidence(first: Trail, second: Trail) -> DeterminismEvidence:
    """What is not the same in both, source by source."""
    one, other = first.steps[0], second.steps[0]
    pairs = list(zip(first.steps, second.steps, strict=False))
    batches = [(a.batch, b.batch) for a, b in pairs if a.batch and b.batch]
    rows = [(a.rows, b.rows) for a, b in pairs if a.rows and b.rows]
    return DeterminismEvidence(
        losses=(tuple(step.loss for step in first.steps), tuple(step.loss for step in second.steps)),
        weights=len(one.weights),
        different_weights=differing(one.weights, other.weights),
        batches=len(batches),
        different_batches=sum(a != b for a, b in batches) if batches else None,
        same_rows=all(a == b for a, b in rows) if rows else None,
        generators=drawn_from(first, differing(one.generators, other.generators)),
    )
