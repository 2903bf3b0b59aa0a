"""What a model that was built makes of the claims about it when its forward pass fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    BatchEvidence,
    ColumnEvidence,
    Evidence,
    Failure,
    ForwardEvidence,
    ModelEvidence,
    SplitEvidence,
    Stage,
    StageName,
    TensorEvidence,
)
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules

HERE = Location("train.py", 3, 1, 3, 5)
ERROR = Failure("ValueError", "You must specify exactly one of input_ids or inputs_embeds", HERE)
PLAIN = ModelEvidence(
    "T5Model", ("input_ids", "kwargs"), (), "", None, (), None, False, True, 10, 10, True, True, "cpu"
)
FAILED = Evidence(
    "train.py", "transformers", "Trainer", HERE, None, "cpu", {}, stages=(Stage.failed(StageName.FORWARD, ERROR),)
)


@pytest.mark.parametrize(
    ("model", "outcome", "said"),
    [
        (PLAIN, Outcome.CONFIRMED, "none of the 2 inputs of `T5Model` takes labels"),
        (replace(PLAIN, task="ConditionalGeneration"), Outcome.INCONCLUSIVE, "the forward stage failed: ValueError"),
        (replace(PLAIN, inputs=("input_ids", "labels")), Outcome.INCONCLUSIVE, "the forward stage failed: ValueError"),
        (None, Outcome.INCONCLUSIVE, "the forward stage failed: ValueError"),
    ],
)
def test_only_a_model_that_takes_no_labels_is_to_blame_for_an_error_of_another_kind(
    model: ModelEvidence | None, outcome: Outcome, said: str
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "headless-model")
    verdict = rule.verify(Finding("headless-model", Level.ERROR, HERE, "it is claimed"), replace(FAILED, model=model))
    assert (verdict.outcome, said in verdict.reason) == (outcome, True)


@pytest.mark.parametrize(
    ("longest", "rotary", "level"), [(600, False, "error"), (600, True, "warning"), (512, False, "")]
)
def test_inputs_that_only_a_batch_shows_to_be_too_long_are_found_once(longest: int, rotary: bool, level: str) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "over-long-input")
    ids = ColumnEvidence("input_ids", "list", "int64", lengths=(8, longest))
    model = replace(PLAIN, positions=512, rotary=rotary)
    seen = replace(FAILED, model=model, splits=(SplitEvidence("train_dataset", 9, (ids,)),))
    found = list(rule.inspect(seen))
    assert [str(finding.level.value) for finding, _ in found] == ([level] if level else [])
    claim = Finding("over-long-input", Level.ERROR, HERE, "it is claimed")
    assert rule.verify(claim, seen).outcome is (Outcome.CONFIRMED if level else Outcome.REFUTED)
    assert all(rule.follows_from(finding, verdict, claim) for finding, verdict in found)


@pytest.mark.parametrize(
    ("length", "passes", "rotary", "outcome", "said"),
    [
        (
            600,
            True,
            False,
            Outcome.REFUTED,
            "batches of 600 tokens with padding ran without an error; the model has 512 positions",
        ),
        (700, True, False, Outcome.CONFIRMED, "the longest input has 700 tokens, the model has 512 positions"),
        (600, True, True, Outcome.CONFIRMED, "the longest input has 600 tokens, the model has 512 positions"),
        (600, False, False, Outcome.CONFIRMED, "the longest input has 600 tokens, the model has 512 positions"),
    ],
    ids=["padding takes no positions", "longer rows come later", "rotary positions decay", "nothing went through"],
)
def test_rows_that_learned_positions_were_enough_for_are_not_too_long(
    length: int, passes: bool, rotary: bool, outcome: Outcome, said: str
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "over-long-input")
    ids = ColumnEvidence("input_ids", "list", "int64", lengths=(8, length))
    batch = BatchEvidence(
        "train_dataset", "DataCollatorWithPadding", (TensorEvidence("input_ids", (4, 600), "int64"),), 4
    )
    seen = replace(
        FAILED,
        model=replace(PLAIN, positions=512, rotary=rotary),
        splits=(SplitEvidence("train_dataset", 9, (ids,)),),
        batches=(batch,),
        forward=ForwardEvidence((0.7,), None, True) if passes else None,
        stages=(),
    )
    verdict = rule.verify(Finding("over-long-input", Level.ERROR, HERE, "it is claimed"), seen)
    assert (verdict.outcome, verdict.reason) == (outcome, said)
