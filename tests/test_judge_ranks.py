"""What two processes, or a resumed one, showed makes of the claims about them; no process is started here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    CheckpointEvidence,
    Evidence,
    LoaderUse,
    LoopEvidence,
    RankGather,
    RankPrint,
    RankSchedule,
    RanksEvidence,
    RankWait,
    RankWrite,
    ScheduleUse,
)
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.text.stage_numbers import numbers
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.timeline import Gathered, Timeline, wait_in_vain
from lintrain.runtime.passes.ranks import gathers_of, waits_of
from lintrain.verdicts.judging import judge

HERE = Location("train.py", 3, 1, 3, 5)
LOOP = LoopEvidence(
    loader=LoaderUse(batches=40, batch_size=16, drops_last=False, sampler="RandomSampler"),
    schedules=(ScheduleUse("LambdaLR", steps=4, length=120),),
)
MEASURED = Evidence("train.py", "torch", "", HERE, None, "cpu", {}, loop=LOOP)
RANKS = RanksEvidence(
    processes=2,
    steps=2,
    weights=4,
    different_weights=(),
    gradients=4,
    different_gradients=(),
    without_gradient=(),
    rows=(32, 32),
    shared_rows=0,
    batches=(20, 20),
    dataset_rows=(640, 640),
    same_dataset=True,
    is_joined=True,
)
GATHER = RankGather(HERE, "gather", gathered=64, fetched=64, rows=52)
RULES = {rule.name: rule.rule for rule in load_rules()}


def verdict(rule: str, ranks: RanksEvidence | None) -> Verdict:
    return RULES[rule].verify(Finding(rule, Level.ERROR, HERE, "it is claimed"), replace(MEASURED, ranks=ranks))


def outcome(rule: str, ranks: RanksEvidence | None) -> str:
    return verdict(rule, ranks).outcome.value


RULES_ON_RANKS = (
    *("duplicated-eval-rows", "gathered-number", "multiplied-scheduler-steps", "twice-divided-rows", "undivided-rows"),
    "unsynchronized-replicas",
)


@pytest.mark.parametrize("rule", RULES_ON_RANKS)
def test_without_two_processes_the_option_is_named(rule: str) -> None:
    assert verdict(rule, None).reason == "`lintrain probe --also ranks` measures it"


def test_the_error_of_one_rank_confirms_that_gathered_numbers_are_several() -> None:
    failed = replace(RANKS, failure="RuntimeError: a Tensor with 2 elements cannot be converted to Scalar")
    assert outcome("gathered-number", failed) == "confirmed"
    assert outcome("gathered-number", RANKS) == "inconclusive"


@pytest.mark.parametrize(
    ("same_dataset", "batches", "expected"),
    [(True, 10, "confirmed"), (True, 20, "refuted"), (False, 20, "confirmed"), (False, 40, "refuted")],
)
def test_rows_of_all_processes_are_counted_against_those_there_are(
    same_dataset: bool, batches: int, expected: str
) -> None:
    ranks = replace(RANKS, same_dataset=same_dataset, batches=(batches, batches), batch_sizes=(16, 16))
    assert outcome("twice-divided-rows", ranks) == expected
    assert outcome("twice-divided-rows", replace(ranks, batches=(None, None))) == "inconclusive"


@pytest.mark.parametrize(
    ("gathered", "fetched", "expected"),
    [(64, 64, "confirmed"), (52, 64, "refuted"), (52, 52, "inconclusive"), (640, 64, "inconclusive")],
)
def test_gathered_rows_are_counted_against_those_there_are(gathered: int, fetched: int, expected: str) -> None:
    gather = replace(GATHER, gathered=gathered, fetched=fetched)
    assert outcome("duplicated-eval-rows", replace(RANKS, gathers=(gather,))) == expected


def test_a_line_that_no_process_came_to_gathers_nothing() -> None:
    elsewhere = replace(GATHER, location=replace(HERE, line=9, end_line=9))
    assert outcome("duplicated-eval-rows", replace(RANKS, gathers=(elsewhere,))) == "inconclusive"


@pytest.mark.parametrize(
    ("length", "pace", "expected"),
    [(60, 2, "confirmed"), (120, 2, "refuted"), (120, 1, "refuted"), (60, 1, "refuted"), (60, 0, "inconclusive")],
)
def test_a_schedule_is_as_long_as_on_one_process_or_not(length: int, pace: int, expected: str) -> None:
    ranks = replace(RANKS, schedules=(RankSchedule("LambdaLR", pace, length),))
    assert outcome("multiplied-scheduler-steps", ranks) == expected


def test_a_schedule_without_an_end_is_not_judged() -> None:
    ranks = replace(RANKS, schedules=(RankSchedule("LambdaLR", 2, None),))
    assert outcome("multiplied-scheduler-steps", ranks) == "inconclusive"


OTHER_SPLIT = replace(RANKS, same_dataset=False, batch_sizes=(16, 16), contents=(640, 640), shared_contents=500)
WAIT = RankWait(0, "all_reduce", HERE, (1, 0))
APART = replace(RANKS, apart=("0.weight",), different_gradients=("0.weight",))


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        (APART, "confirmed"),
        (RANKS, "refuted"),
        (replace(APART, is_joined=False), "inconclusive"),
        (replace(APART, keeps_apart="LocalSGD"), "inconclusive"),
        (replace(APART, shared_rows=32), "inconclusive"),
        (replace(APART, shared_rows=None), "inconclusive"),
    ],
)
def test_models_may_be_apart_by_intent(ranks: RanksEvidence, expected: str) -> None:
    assert outcome("unsynchronized-replicas", ranks) == expected


SAME = replace(RANKS, same_batches=2, shared_rows=32)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        (SAME, "confirmed"),
        (RANKS, "refuted"),
        (replace(SAME, same_batches=1), "inconclusive"),
        (replace(SAME, is_joined=False), "inconclusive"),
        (replace(SAME, apart=("0.weight",)), "inconclusive"),
        (replace(SAME, shared_rows=None), "inconclusive"),
    ],
)
def test_parts_of_one_model_work_on_the_same_rows(ranks: RanksEvidence, expected: str) -> None:
    assert outcome("undivided-rows", ranks) == expected


def timeline(calls: tuple[int, ...], batches: tuple[tuple[int, ...], ...], *, is_whole: bool = True) -> Timeline:
    gathered = Gathered(1, is_whole, "gather", HERE, calls, batches)
    return Timeline(gathers={(1, HERE): gathered})


ONE, OTHER = ((0, 1), (4, 0)), ((2, 3), (1, 2))
"""Five rows in batches of two on two processes: three of the last four are repeated."""


@pytest.mark.parametrize("calls", [(4, 4), (8,), (4, 4, 4, 4)])
def test_a_round_gathers_batch_by_batch_or_at_its_end_one_quantity_or_two(calls: tuple[int, ...]) -> None:
    (found,) = gathers_of([timeline(calls, ONE), timeline(calls, OTHER)])
    assert (found.gathered, found.fetched, found.rows) == (8, 8, 5)


def test_a_round_that_a_process_did_not_end_is_not_counted() -> None:
    assert gathers_of([timeline((4,), ONE), timeline((4,), OTHER, is_whole=False)]) == []
    assert gathers_of([timeline((4,), ONE), Timeline()]) == []


def test_the_stage_tells_what_differs() -> None:
    waits = (WAIT, RankWait(1, "backward", HERE))
    prints = (RankPrint(HERE, (0, 1)),)
    apart = replace(APART, waits=waits, prints=prints, losses=((1.0, 0.5), (1.25,)))
    ranks = replace(apart, is_joined=False, gathers=(GATHER,), schedules=(RankSchedule("LambdaLR", 2, 60),))
    told = numbers(replace(MEASURED, ranks=replace(ranks, same_batches=1)), "ranks")
    for part in (
        "2 processes without a process group, 2 steps",
        "0 of 4 differ at the start",
        "1 trained weights differ before step 2",
        "1 of 2 steps",
        "`gather` returns 64 of 52 rows",
        "waits in `all_reduce` at train.py:3 for ever, called once by rank 0, never by rank 1",
        "waits in `backward` at train.py:3 for ever",
        "1, 0.5 on rank 0; 1.25 on rank 1",
        "by all processes: train.py:3",
        "LambdaLR advances 2 steps per optimizer step",
    ):
        assert part in told


RESUMED = CheckpointEvidence(
    saved_after=2,
    resumes_by="library",
    files={"model.safetensors": 10},
    weights=4,
    changed_weights=(),
    optimizer_state=12,
    lost_state=("a", "b"),
    changed_state=(),
    learning_rates=(5e-5, 1e-4),
    losses=(1.0, 1.2),
)


def test_a_trainer_that_resumes_with_its_weights_alone_is_told_so_where_it_is_asked_to() -> None:
    trainer = replace(MEASURED, framework="transformers", loop=None, checkpoint=RESUMED)
    ((finding, found),) = RULES["weights-only-resume"].inspect(trainer)
    assert (finding.location, found.outcome.value) == (HERE, "confirmed")
    assert "10 of 12 tensors of the optimizer" in found.reason
    assert "the learning rate is 0.0001, without the interruption 5e-05" in found.reason
    never = replace(trainer, checkpoint=replace(RESUMED, resume_is_asked=False))
    assert list(RULES["weights-only-resume"].inspect(never)) == []
    whole = replace(trainer, checkpoint=replace(RESUMED, lost_state=()))
    assert list(RULES["weights-only-resume"].inspect(whole)) == []


@pytest.mark.parametrize(
    ("resumed", "expected"),
    [
        (replace(RESUMED, generators=("torch",), repeats_step=1, rows=16), "confirmed"),
        (replace(RESUMED, generators=("torch",), restarted=("torch",)), "confirmed"),
        (replace(RESUMED, generators=("torch",)), "refuted"),
        (RESUMED, "refuted"),
        (None, "inconclusive"),
    ],
)
def test_random_numbers_go_on_are_new_or_start_again(resumed: CheckpointEvidence | None, expected: str) -> None:
    finding = Finding("restarted-random-numbers", Level.WARNING, HERE, "it is claimed")
    found = RULES["restarted-random-numbers"].verify(finding, replace(MEASURED, checkpoint=resumed))
    assert found.outcome.value == expected


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        (replace(RANKS, waits=(WAIT,)), "confirmed"),
        (replace(RANKS, collectives=(HERE,)), "refuted"),
        (replace(RANKS, waits=(replace(WAIT, location=replace(HERE, line=9, end_line=9)),)), "inconclusive"),
        (RANKS, "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_a_collective_is_waited_in_or_passed(ranks: RanksEvidence | None, expected: str) -> None:
    assert outcome("guarded-collective", ranks) == expected


BARRIER = ("barrier", HERE)
BACKWARD = ("backward", replace(HERE, line=9, end_line=9))


@pytest.mark.parametrize(
    ("one", "other", "is_in_vain"),
    [
        (Timeline(waits=BARRIER), Timeline(waits=BACKWARD), True),
        (Timeline(waits=BARRIER), Timeline(facts={"done": True}), True),
        (Timeline(waits=BARRIER), Timeline(waits=BARRIER), False),
        (Timeline(waits=BARRIER), Timeline(), False),
        (Timeline(facts={"done": True}), Timeline(facts={"done": True}), False),
    ],
)
def test_processes_wait_in_vain_at_different_lines_or_for_one_that_is_done(
    one: Timeline, other: Timeline, *, is_in_vain: bool
) -> None:
    assert wait_in_vain([one, other]) is is_in_vain
    assert bool(waits_of([one, other])) is is_in_vain


def test_the_rank_that_is_behind_the_others_is_named_first() -> None:
    ahead = Timeline(waits=("barrier", replace(HERE, line=9, end_line=9)))
    ahead.collectives["barrier", replace(HERE, line=9, end_line=9)] = 1
    behind = Timeline(waits=("all_reduce", HERE))
    behind.collectives["all_reduce", HERE] = 2
    assert [(wait.rank, wait.calls) for wait in waits_of([ahead, behind])] == [(1, (0, 2)), (0, (1, 0))]


@pytest.mark.parametrize(
    ("scales", "steps", "said"),
    [
        ((None, None), (0, 0), ""),
        ((1024.0, 1024.0), (2, 2), ""),
        ((1024.0, 1024.0), (2, 0), "scale 1024 of the gradient scaler, 0 steps after it changed, not 2"),
        ((1024.0, 65536.0), (2, 0), "scale 65536 of the gradient scaler, 0 steps after it changed, not 2, not 1024"),
        ((1024.0, None), (2, 0), "no gradient scaler, where one was at 1024"),
    ],
)
def test_a_scaler_goes_on_as_it_was_or_is_told(
    scales: tuple[float | None, float | None], steps: tuple[int, int], said: str
) -> None:
    kept = replace(RESUMED, lost_state=(), learning_rates=(1.0, 1.0), scales=scales, steps_since_growth=steps)
    assert "; ".join(kept.differences) == said


@pytest.mark.parametrize(
    ("rule", "ranks", "is_found"),
    [
        ("rank-dependent-data", OTHER_SPLIT, True),
        ("rank-dependent-data", replace(OTHER_SPLIT, shared_contents=0), False),
        ("rank-dependent-data", replace(OTHER_SPLIT, contents=(), shared_contents=0), False),
        ("rank-dependent-data", replace(OTHER_SPLIT, batches=(40, 40)), False),
        ("rank-dependent-data", replace(OTHER_SPLIT, same_dataset=True), False),
        ("rank-dependent-data", RANKS, False),
        ("guarded-collective", replace(RANKS, waits=(WAIT,)), True),
        ("guarded-collective", replace(RANKS, waits=(replace(WAIT, calls=(1, 1)),)), False),
        ("guarded-collective", replace(RANKS, waits=(replace(WAIT, calls=()),)), False),
        ("unsynchronized-batch-norm", replace(RANKS, batch_norms=2, batch_sizes=(4, 4)), True),
        ("unsynchronized-batch-norm", replace(RANKS, batch_norms=2, batch_sizes=(16, 16)), False),
        ("unsynchronized-batch-norm", replace(RANKS, batch_norms=0, batch_sizes=(4, 4)), False),
        ("unsynchronized-batch-norm", replace(RANKS, batch_norms=2, batch_sizes=(4, 4), is_joined=False), False),
        ("all-ranks-write", replace(RANKS, writes=(RankWrite("net.pt", HERE, (0, 1)),)), True),
        ("all-ranks-write", replace(RANKS, writes=(RankWrite("net.pt", HERE, (0,)),)), False),
        ("multiplied-scheduler-steps", replace(RANKS, schedules=(RankSchedule("LambdaLR", 2, 60),)), True),
        ("multiplied-scheduler-steps", replace(RANKS, schedules=(RankSchedule("LambdaLR", 2, 120),)), False),
    ],
)
def test_two_processes_show_a_mistake_without_the_text(rule: str, ranks: RanksEvidence, *, is_found: bool) -> None:
    made = replace(LOOP, schedules=tuple(replace(each, made_at=HERE) for each in LOOP.schedules))
    measured = replace(MEASURED, loop=made, ranks=ranks)
    assert (rule in {finding.rule for finding, _ in judge([measured], [], load_rules())}) is is_found
