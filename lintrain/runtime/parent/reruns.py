"""Measurements that need further passes over the script, in fresh processes, after the first one passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import Evidence, Stage, StageName
from lintrain.runtime.parent.script_starts import ScriptStarts
from lintrain.runtime.parent.timeline import UnmeasuredError
from lintrain.runtime.passes.checkpoint import compare_resumed
from lintrain.runtime.passes.determinism import compare_starts
from lintrain.runtime.passes.ranks import compare_ranks

RERUNS: Mapping[str, Callable[[ScriptStarts], EvidenceFields]] = {
    StageName.CHECKPOINT: compare_resumed,
    StageName.DETERMINISM: compare_starts,
    StageName.RANKS: compare_ranks,
}
"""By the name of the stage: what starts the script again and compares."""


def measure_reruns(starts: ScriptStarts, also: tuple[str, ...], evidence: Evidence) -> Evidence:
    """The evidence with what the requested extras add to it."""
    for name in map(StageName, also):
        if name in RERUNS:
            starts.listen({"event": "stage-started", "stage": name})
            stage, fields = _measured(starts, name, evidence)
            starts.listen({"event": "stage", "stage": {"name": name, "status": stage.status, "seconds": stage.seconds}})
            evidence = replace(evidence, stages=(*evidence.stages, stage), **fields)  # type: ignore[arg-type]
    return evidence


def _measured(starts: ScriptStarts, name: StageName, evidence: Evidence) -> tuple[Stage, EvidenceFields]:
    started = time.monotonic()
    # All reruns compare optimizer steps.
    if not evidence.passed(StageName.STEP):
        return Stage.not_reached(name, "training does not reach its first step"), {}
    try:
        fields = RERUNS[name](starts)
    except UnmeasuredError as reason:
        return Stage.not_reached(name, str(reason), time.monotonic() - started), {}
    return Stage.passed(name, time.monotonic() - started), fields
