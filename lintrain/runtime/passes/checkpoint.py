"""A run that saves and continues, compared with a fresh process that resumes from what it saved.

Two starts of one script next to each other: whether the second does the same, and where they begin to differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import CheckpointEvidence, DeterminismEvidence
from lintrain.runtime.parent.entry import ScriptStarts
from lintrain.runtime.parent.pass_request import TimelineRequest
from lintrain.runtime.parent.timeline import Timeline, TimelineStep, UnmeasuredError, differing, drawn_from

SAVED_AFTER = 2
MOST_FILES = 20


def compare_resumed(starts: ScriptStarts) -> EvidenceFields:
    """Two passes: one saves after some steps and takes one more, the other resumes and takes its first."""
    folder = starts.folder()
    # In one process: the step after the checkpoint is the reference that the resumed process is compared with.
    saving = starts.follow(folder, TimelineRequest("save", SAVED_AFTER + 1))
    saving.demand(1, "the run that saves")
    if saving.facts.get("framework"):
        saving.demand(SAVED_AFTER + 1, "the run that saves")
    files = _files(folder, saving.facts.get("checkpoint"))
    if not files:
        raise UnmeasuredError(
            f"the script saved nothing in its first {len(saving.steps)} steps that it could go on from"
        )
    saving.demand(SAVED_AFTER + 1, "the loop, which ended after it saved,")
    path = saving.facts.get("checkpoint", "")
    resuming = starts.follow(folder, TimelineRequest("resume", 1, path))
    resuming.demand(1, "the process that resumes")
    # A script's own way of saving is known only by its effect: weights as at the very start mean that it found
    # nothing.
    if not path and _starts_from_scratch(saving, resuming):
        raise UnmeasuredError("the second run of the script did not resume from what the first one saved")
    return {"checkpoint": resumed_evidence(saving, resuming, files)}


def _files(folder: Path, checkpoint: str | None) -> dict[str, int]:
    """The files of a checkpoint by size: those that the library saved, else all that the script wrote by itself."""
    # Files of the script's own are in the layer that took its writes, none in the user's folders.
    root = Path(checkpoint) if checkpoint else folder / "layer" / "written"
    if root.is_file():
        return {root.name: root.stat().st_size}
    found = sorted(file for file in root.rglob("*") if file.is_file())[:MOST_FILES]
    return {str(file.relative_to(root)) if checkpoint else file.name: file.stat().st_size for file in found}


def _starts_from_scratch(saving: Timeline, resuming: Timeline) -> bool:
    """Whether a start has the weights of the first step again, and not those that were saved."""
    weights = resuming.steps[0].weights
    # Both conditions: weights that two steps did not change are equal at the start and in the checkpoint.
    return weights == saving.steps[0].weights != saving.steps[SAVED_AFTER].weights


def resumed_evidence(saving: Timeline, resuming: Timeline, files: dict[str, int]) -> CheckpointEvidence:
    """The step after the checkpoint in both processes, part by part."""
    before, (went_on, resumed) = saving.steps[:SAVED_AFTER], (saving.steps[SAVED_AFTER], resuming.steps[0])
    seen = {row for step in before for row in step.rows}
    drawn = drawn_from(saving, differing(went_on.generators, resumed.generators))
    # Rows of the next step may have been seen before, in a small data set; only other rows than those of the
    # uninterrupted run are a repetition.
    is_again = bool(went_on.rows) and went_on.rows != resumed.rows
    return CheckpointEvidence(
        saved_after=SAVED_AFTER,
        resumes_by="library" if saving.facts.get("framework") else "script",
        files=files,
        weights=len(went_on.weights),
        changed_weights=differing(went_on.weights, resumed.weights),
        optimizer_state=len(went_on.state),
        lost_state=tuple(sorted(set(went_on.state) - set(resumed.state))),
        changed_state=tuple(name for name in differing(went_on.state, resumed.state) if name in resumed.state),
        learning_rates=(max(went_on.learning_rates), max(resumed.learning_rates)),
        losses=(went_on.loss, resumed.loss),
        generators=drawn,
        same_batch=went_on.batch == resumed.batch if went_on.batch and resumed.batch else None,
        rows=len(resumed.rows),
        repeated_rows=len(set(resumed.rows) & seen) if is_again else 0,
        scales=(_first_scaler(went_on)[0], _first_scaler(resumed)[0]),
        steps_since_growth=(_first_scaler(went_on)[1], _first_scaler(resumed)[1]),
        restarted=tuple(name for name in drawn if resumed.generators[name] == before[0].generators[name]),
        repeats_step=_step_repeated(before, went_on, resumed),
        resume_is_asked=saving.facts.get("resume_is_asked", True),
    )


def _step_repeated(before: Sequence[TimelineStep], went_on: TimelineStep, resumed: TimelineStep) -> int | None:
    """The step, from 1, whose rows the resumed one has in the same order, and the uninterrupted one has not."""
    if not resumed.rows or resumed.rows == went_on.rows:
        return None
    return next((number for number, step in enumerate(before, 1) if step.rows == resumed.rows), None)


def _first_scaler(step: TimelineStep) -> tuple[float | None, int]:
    return step.scalers[0] if step.scalers else (None, 0)


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
