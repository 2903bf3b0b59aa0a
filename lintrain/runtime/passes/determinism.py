"""Two starts of one script next to each other: whether the second does the same, and where they begin to differ."""

from __future__ import annotations

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import DeterminismEvidence
from lintrain.runtime.parent.pass_request import TimelineRequest
from lintrain.runtime.parent.script_starts import ScriptStarts
from lintrain.runtime.parent.timeline import Timeline, differing, drawn_from

STEPS = 3


def compare_starts(starts: ScriptStarts) -> EvidenceFields:
    """Two passes of the first steps, each in a folder of its own."""
    first = starts.follow(starts.folder(), TimelineRequest("repeat", STEPS))
    first.demand(1, "the first start")
    # A folder of its own for each: the second run must not find what the first one wrote.
    second = starts.follow(starts.folder(), TimelineRequest("repeat", STEPS))
    second.demand(1, "the second start")
    return {"determinism": starts_evidence(first, second)}


def starts_evidence(first: Timeline, second: Timeline) -> DeterminismEvidence:
    """What differs between both, source by source."""
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
