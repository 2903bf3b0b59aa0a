"""Short runs of a script with several values of one setting, and which of them reduces the loss most."""

from __future__ import annotations

from dataclasses import replace

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import Trial, TrialsEvidence
from lintrain.runtime.parent.entry import ScriptStarts
from lintrain.runtime.parent.pass_request import TimelineRequest
from lintrain.runtime.parent.timeline import Timeline, UnmeasuredError
from lintrain.runtime.parent.trials import Grid, Setting

STEPS = 20


def compare_values(setting: Setting | Grid, starts: ScriptStarts) -> EvidenceFields:
    """One pass for each value, each in a folder of its own; raises UnmeasuredError if none takes a step."""
    followed = {value: _followed(setting, value, starts) for value in setting.values}
    # One value that fails is a result (too high a rate); only if none takes a step is there nothing to compare.
    if not any(timeline.steps for timeline in followed.values()):
        next(iter(followed.values())).demand(1, f"the run with {setting.name}={setting.values[0]}")
    found = TrialsEvidence(
        name=setting.name,
        where=setting.where,
        steps=STEPS,
        trials=tuple(_trial(value, timeline) for value, timeline in followed.items()),
        same_batches=_same_batches([timeline for timeline in followed.values() if timeline.steps]),
    )
    return {"trials": found}


def _followed(setting: Setting | Grid, value: str, starts: ScriptStarts) -> Timeline:
    entry = replace(starts.entry, arguments=(*starts.entry.arguments, *setting.arguments(value)))
    starts = replace(starts, entry=entry)
    try:
        return starts.follow(starts.folder(), TimelineRequest("try", STEPS), setting.text_with(value))
    except UnmeasuredError as error:  # no time is left: the values before it are compared
        late = Timeline()
        late.facts["stopped"] = str(error)
        return late


def _trial(value: str, timeline: Timeline) -> Trial:
    rates = [rate for step in timeline.steps for rate in step.learning_rates]
    losses = tuple(step.loss for step in timeline.steps)
    return Trial(value, losses, max(rates, default=None), "" if losses else why_no_step(timeline))


def why_no_step(timeline: Timeline) -> str:
    """Why a run took no step: its error, else the last line that it wrote, as that of an option with a wrong value."""
    if "failure" in timeline.facts or "stopped" in timeline.facts:
        return str(timeline.facts.get("failure") or timeline.facts.get("stopped")).partition("\n")[0]
    ending = timeline.ending
    written = [line for line in (ending.reason or ending.output).splitlines() if line.strip()]
    return f"no step was taken: {written[-1].strip()}" if written else f"no step was taken: it ended ({ending.kind})"


def _same_batches(timelines: list[Timeline]) -> bool | None:
    """Whether the runs had the same batches, step by step, as far as each of them came."""
    batches = [[step.batch for step in timeline.steps] for timeline in timelines]
    if not all(all(each) for each in batches):
        return None
    return all(one == other for each in batches[1:] for one, other in zip(batches[0], each, strict=False))
