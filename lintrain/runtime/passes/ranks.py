"""The processes of one training next to each other: one model, other rows, equal gradients, one of them writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import RankGather, RankPrint, RankSchedule, RanksEvidence, RankWait, RankWrite
from lintrain.model.location import Location
from lintrain.runtime.parent.entry import ScriptStarts
from lintrain.runtime.parent.pass_request import TimelineRequest
from lintrain.runtime.parent.timeline import Timeline, TimelineStep, UnmeasuredError, differing, wait_in_vain

PROCESSES, STEPS = 2, 2


def compare_ranks(starts: ScriptStarts) -> EvidenceFields:
    """One pass, in which torch's launcher starts the script on two processes."""
    if starts.entry.is_notebook:
        raise UnmeasuredError("a notebook cannot be launched on several processes")
    request = TimelineRequest("ranks", STEPS, allows_unused=starts.allows_unused)
    ranks = starts.follow_ranks(starts.folder(), request, PROCESSES)
    # Ranks that wait for one another are a result, and not a pass that failed.
    if (waits := waits_of(ranks)) and not all(timeline.steps for timeline in ranks):
        return {"ranks": without_steps(ranks, waits)}
    # The launcher kills the other ranks when one fails: the first error is the reason, all others follow from it.
    demand_of_all(ranks)
    for number, timeline in enumerate(ranks):
        timeline.demand(1, f"rank {number} of {PROCESSES}")
    return {"ranks": ranks_evidence(ranks)}


def demand_of_all(ranks: Sequence[Timeline]) -> None:
    """Raise UnmeasuredError where a rank took no step, with the reason; the others end because it is gone."""
    if all(timeline.steps for timeline in ranks):
        return
    for number, timeline in enumerate(ranks):
        if timeline.facts.get("left") and not timeline.steps:
            raise UnmeasuredError(f"rank {number} of {len(ranks)} ends without a step")
    if reason := _failure(ranks):
        raise UnmeasuredError(reason)


def _failure(ranks: Sequence[Timeline]) -> str:
    """The first error that a rank ended with, in one line."""
    for number, timeline in enumerate(ranks):
        if failure := timeline.facts.get("failure", ""):
            return f"rank {number} of {len(ranks)} ends with {failure.splitlines()[0]}"
    return ""


def waits_of(ranks: Sequence[Timeline]) -> tuple[RankWait, ...]:
    """The ranks that wait in vain, the one that is behind the others first."""
    if not wait_in_vain(ranks):
        return ()
    found: list[RankWait] = []
    for number, timeline in enumerate(ranks):
        if timeline.waits is not None and not timeline.facts.get("done"):
            function, location = timeline.waits
            counts = [each.collectives.get((function, location), 0) if location else 0 for each in ranks]
            found.append(RankWait(number, function, location, tuple(counts) if any(counts) else ()))
    # A rank that waits at an earlier line has not come to the later one: the others have passed its line by.
    return tuple(sorted(found, key=lambda wait: (not wait.is_unmatched, wait.location is None, wait.location)))


def without_steps(ranks: Sequence[Timeline], waits: tuple[RankWait, ...]) -> RanksEvidence:
    """What is known of ranks that wait for one another before all of them have stepped."""
    nothing: tuple[int | None, ...] = (None,) * len(ranks)
    return RanksEvidence(len(ranks), 0, 0, (), 0, (), (), (0,) * len(ranks), None, nothing, nothing, None, waits=waits)


def ranks_evidence(ranks: Sequence[Timeline]) -> RanksEvidence:
    """What is the same on all ranks, and what is not."""
    first, second = ranks[0].steps[0], ranks[1].steps[0]
    pairs = list(zip(ranks[0].steps, ranks[1].steps, strict=False))
    rows = [[row for step in timeline.steps for row in step.rows] for timeline in ranks]
    facts = ranks[0].facts
    contents = [set[str](timeline.facts.get("contents", ())) for timeline in ranks]
    return RanksEvidence(
        processes=len(ranks),
        steps=len(pairs),
        weights=len(first.weights),
        different_weights=differing(first.weights, second.weights),
        gradients=len(first.gradients),
        different_gradients=differing(first.gradients, second.gradients),
        without_gradient=tuple(first.without_gradient),
        rows=tuple(len(set(each)) for each in rows),
        shared_rows=len(set(rows[0]) & set(rows[1])) if all(rows) else None,
        batches=tuple(timeline.facts.get("batches") for timeline in ranks),
        dataset_rows=tuple(timeline.facts.get("dataset_rows") for timeline in ranks),
        same_dataset=_same_dataset(ranks),
        writes=tuple(_writes(ranks)),
        gathers=tuple(gathers_of(ranks)),
        schedules=tuple(RankSchedule(**each) for each in facts.get("schedules", ())),
        apart=_apart(*pairs[-1]),
        same_batches=sum(bool(one.batch) and one.batch == other.batch for one, other in pairs),
        is_joined=facts.get("joined", 1) == len(ranks),
        keeps_apart=facts.get("keeps_apart", ""),
        failure=_failure(ranks) if len(pairs) < STEPS else "",
        waits=waits_of(ranks),
        collectives=tuple(dict.fromkeys(location for timeline in ranks for _, location in timeline.collectives)),
        prints=tuple(_prints(ranks)),
        batch_norms=facts.get("batch_norms", 0),
        batch_sizes=tuple(timeline.facts.get("batch_size") for timeline in ranks),
        contents=tuple(len(each) for each in contents),
        shared_contents=len(contents[0].intersection(*contents[1:])),
        losses=tuple(tuple(step.loss for step in timeline.steps) for timeline in ranks),
    )


def _same_dataset(ranks: Sequence[Timeline]) -> bool | None:
    digests = [timeline.facts.get("dataset") for timeline in ranks]
    lengths = [timeline.facts.get("dataset_rows") for timeline in ranks]
    is_known = all(isinstance(each, str) for each in digests)
    return digests[0] == digests[1] and lengths[0] == lengths[1] if is_known else None


def _apart(one: TimelineStep, other: TimelineStep) -> tuple[str, ...]:
    """The weights that get gradients on both ranks and are not the same before a step."""
    trained = one.gradients.keys() & other.gradients.keys() & other.weights.keys()
    return tuple(name for name in differing(one.weights, other.weights) if name in trained)


def _prints(ranks: Sequence[Timeline]) -> Iterator[RankPrint]:
    for location in ranks[0].prints:
        numbers = [number for number, timeline in enumerate(ranks) if location in timeline.prints]
        if len(numbers) > 1:
            yield RankPrint(location, tuple(numbers))


def _writes(ranks: Sequence[Timeline]) -> list[RankWrite]:
    found: dict[tuple[str, Location | None], list[int]] = {}
    for number, timeline in enumerate(ranks):
        for path, location in dict.fromkeys(timeline.writes):
            found.setdefault((path, location), []).append(number)
    return [RankWrite(path, location, tuple(numbers)) for (path, location), numbers in found.items()]


def gathers_of(ranks: Sequence[Timeline]) -> list[RankGather]:
    """For each location that gathers, the first round over a loader that all ranks completed."""
    found: dict[Location, RankGather] = {}
    for key, gathered in ranks[0].gathers.items():
        of_all = [timeline.gathers.get(key) for timeline in ranks]
        whole = [each for each in of_all if each is not None and each.is_whole]
        # A round that one rank has not completed has gathered fewer rows there, and would count as rows that are lost.
        if len(whole) == len(ranks):
            fetched = [row for each in whole for batch in each.batches for row in batch]
            known = RankGather(gathered.location, gathered.function, gathered.rows, len(fetched), len(set(fetched)))
            found.setdefault(gathered.location, known)
    return list(found.values())
