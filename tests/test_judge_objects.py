"""What a script's own objects, and errors at their places, make of the claims about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    CopiedRows,
    EncodedChat,
    Evidence,
    Failure,
    LearnedRows,
    LoopEvidence,
    MadeLoader,
    ModelEvidence,
    MovedModel,
    ObjectEvidence,
    SplitRows,
    Stage,
    StageName,
    StepStop,
)
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules

HERE, ABOVE, BELOW = (Location("train.py", line, 1, line, 60) for line in (7, 3, 9))
EVIDENCE = Evidence("train.py", "torch", "a loop", Location("train.py", 20, 1, 20, 9), None, "cpu", {})
RULES = {rule.name: rule.rule for rule in load_rules()}
CONFIRMED, REFUTED, INCONCLUSIVE = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.INCONCLUSIVE
STREAM = CopiedRows(is_stream=True, read=8, different=8, alike=8, shared=8, alone=8)
DRAWN = CopiedRows(is_stream=False, read=16, different=16, alike=16, shared=16)
MODEL = MovedModel(HERE, "Net", 4096, beside=0, calls=0, steps=4, is_held=True, trains=False)


def outcome(rule: str, evidence: Evidence, *related: Related, **facts: bool) -> Outcome:
    finding = Finding(rule, Level.ERROR, HERE, "it is claimed", related=related, claim=facts or None)
    verdict = RULES[rule].verify(RULES[rule].restored(finding), evidence)
    assert verdict.outcome is INCONCLUSIVE or verdict.measured or any(letter.isdigit() for letter in verdict.reason)
    return verdict.outcome


def of(**objects: object) -> Evidence:
    return replace(EVIDENCE, objects=replace(ObjectEvidence(), **objects))  # type: ignore[arg-type]


def loader(location: Location = HERE, **values: object) -> Evidence:
    made = MadeLoader(location, 8, 4, 2, drops_last=False, sampler="SequentialSampler", workers=2)
    return of(loaders=(replace(made, **values),))  # type: ignore[arg-type]


def stopped(error: str, location: Location) -> Evidence:
    kind, _, message = error.partition(": ")
    return replace(EVIDENCE, call=None, stages=(Stage.failed(StageName.SCRIPT, Failure(kind, message, location)),))


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("shuffle-with-sampler", "ValueError: sampler option is mutually exclusive with shuffle"),
        ("both-half-precisions", "ValueError: At most one of fp16 and bf16 can be True, but not both"),
        ("quantized-without-adapter", "ValueError: You cannot perform fine-tuning on purely quantized models."),
        ("dataset-from-evaluate", "TypeError: 'Glue' object is not subscriptable"),
    ],
)
def test_an_error_confirms_the_claim_about_its_own_line_only(rule: str, error: str) -> None:
    assert outcome(rule, stopped(error, HERE)) is CONFIRMED
    assert outcome(rule, stopped(error, BELOW)) is INCONCLUSIVE
    assert outcome(rule, stopped("ConnectionError: could not be reached", HERE)) is INCONCLUSIVE


def test_a_loader_that_was_built_refutes_the_claim_about_its_own_line_only() -> None:
    assert outcome("shuffle-with-sampler", loader()) is REFUTED
    assert outcome("shuffle-with-sampler", loader(BELOW)) is INCONCLUSIVE


@pytest.mark.parametrize(("batches", "expected"), [(0, CONFIRMED), (4, REFUTED), (None, INCONCLUSIVE)])
def test_a_loader_says_how_many_batches_it_has(batches: int | None, expected: Outcome) -> None:
    assert outcome("empty-last-batch", loader(batches=batches)) is expected


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        (STREAM, CONFIRMED),
        (replace(STREAM, alike=0, shared=0), REFUTED),
        (replace(STREAM, alike=0, shared=0, is_steady=False), INCONCLUSIVE),
        (replace(STREAM, different=1), INCONCLUSIVE),
        (replace(STREAM, alone=1), INCONCLUSIVE),
        (replace(STREAM, alike=0, shared=3), INCONCLUSIVE),
        (None, INCONCLUSIVE),
    ],
)
def test_a_stream_is_duplicated_where_all_workers_read_what_one_alone_reads(
    copies: CopiedRows | None, expected: Outcome
) -> None:
    assert outcome("duplicated-worker-data", loader(copies=copies)) is expected


@pytest.mark.parametrize(
    ("copies", "generators", "expected"),
    [
        (DRAWN, 1, CONFIRMED),
        (replace(DRAWN, alike=0, shared=0), 1, REFUTED),
        (replace(DRAWN, different=1), 1, REFUTED),
        (replace(DRAWN, alike=5, shared=5), 1, INCONCLUSIVE),
        (None, 1, INCONCLUSIVE),
        (None, 0, REFUTED),
        (None, None, INCONCLUSIVE),
    ],
)
def test_a_kept_generator_is_shared_where_workers_draw_alike(
    copies: CopiedRows | None, generators: int | None, expected: Outcome
) -> None:
    assert outcome("stored-worker-rng", loader(copies=copies, generators=generators)) is expected


def test_a_chat_is_what_its_call_gave() -> None:
    columns = EncodedChat(HERE, "BatchEncoding", ("input_ids", "attention_mask"))
    ids = EncodedChat(HERE, "list")
    chats: list[tuple[tuple[EncodedChat, ...], Outcome]] = [
        ((columns,), CONFIRMED),
        ((ids,), REFUTED),
        ((columns, ids), INCONCLUSIVE),
        ((replace(columns, location=BELOW),), INCONCLUSIVE),
    ]
    for given, expected in chats:
        assert outcome("chat-template-return-type", of(chats=given)) is expected


@pytest.mark.parametrize(
    ("learned", "split", "expected"),
    [
        ((96, 0), (96, 72, 1), CONFIRMED),
        ((72, 1), (96, 72, 0), REFUTED),
        ((96, 1), (96, 72, 0), CONFIRMED),
        ((40, 0), (96, 72, 1), INCONCLUSIVE),
    ],
)
def test_a_learner_has_seen_the_rows_that_are_set_aside(
    learned: tuple[int, int], split: tuple[int, int, int], expected: Outcome
) -> None:
    seen = of(
        learned=(LearnedRows(HERE, "StandardScaler", *learned),),
        splits=(SplitRows(BELOW, *split),),
    )
    assert outcome("fit-before-split", seen, Related(BELOW, "the rows are split here", "split")) is expected


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (MODEL, CONFIRMED),
        (replace(MODEL, is_held=False), REFUTED),
        (replace(MODEL, calls=4), REFUTED),
        (replace(MODEL, trains=True), REFUTED),
        (replace(MODEL, steps=1), INCONCLUSIVE),
    ],
)
def test_a_model_that_is_held_and_never_called_lies_idle(moved: MovedModel, expected: Outcome) -> None:
    origin = Related(HERE, "moved here", "origin")
    assert outcome("two-models-on-device", of(moved=(moved,)), origin) is expected


@pytest.mark.parametrize(("beside", "expected"), [(4096, CONFIRMED), (0, REFUTED), (None, INCONCLUSIVE)])
def test_a_model_that_is_made_again_meets_the_one_before_it(beside: int | None, expected: Outcome) -> None:
    passes = (MODEL, replace(MODEL, beside=beside))
    assert outcome("two-models-on-device", of(moved=passes), Related(ABOVE, "this loop", "loop")) is expected


@pytest.mark.parametrize(("times", "expected"), [(4, CONFIRMED), (3, CONFIRMED), (1, INCONCLUSIVE), (0, REFUTED)])
def test_a_call_stops_every_step_where_it_comes_as_often(times: int, expected: Outcome) -> None:
    seen = of(stops=(StepStop(HERE, "gc.collect", times, 4),) if times else ())
    assert outcome("synchronized-every-step", replace(seen, loop=LoopEvidence(steps=4, backwards=4))) is expected


@pytest.mark.parametrize(("searched", "expected"), [(4, CONFIRMED), (0, REFUTED)])
def test_anomalies_are_searched_for_where_a_backward_pass_does_it(searched: int, expected: Outcome) -> None:
    loop = LoopEvidence(steps=4, backwards=4, searched_for_nan=searched)
    assert outcome("synchronized-every-step", replace(EVIDENCE, loop=loop), detects=True) is expected


def test_adapters_are_told_by_how_much_of_a_model_trains() -> None:
    built = replace(EVIDENCE, stages=(Stage.passed(StageName.CONSTRUCTION),))
    model = ModelEvidence("Net", (), (), "CausalLM", None, (), None, False, True, 100, 4, True, False, "cpu")
    assert outcome("quantized-without-adapter", replace(built, model=model)) is REFUTED
    whole = replace(model, trainable_parameters=100)
    assert outcome("quantized-without-adapter", replace(built, model=whole)) is INCONCLUSIVE
