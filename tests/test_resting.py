"""Verdicts that rest on stand-ins, and errors that their values may have caused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.responses import EvaluationEvidence
from lintrain.evidence.run import Evidence, Failure, Stage, StageName, StageStatus, StandIn, StandInKind
from lintrain.evidence.stages import GivenValue
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rulebook import load_rules
from lintrain.verdicts.resting import RESTS_ON, may_come_from_stand_in, missing_argument, rested


def evidence(*stand_ins: StandIn) -> Evidence:
    return Evidence("train.py", "transformers", "Trainer", None, None, "cpu", {}, stand_ins=stand_ins)


MODEL = StandIn(StandInKind.MODEL, "gpt2", "GPT2LMHeadModel, 2 layers, random weights")


def test_a_verdict_that_a_stand_in_could_have_caused_is_inconclusive() -> None:
    confirmed = Verdict.confirmed("the loss is 9")
    verdict = rested(confirmed, "loss-far-from-chance", evidence(MODEL))
    assert (verdict.outcome, verdict.reason) == (
        Outcome.INCONCLUSIVE,
        "it rests on a stand-in (model gpt2): the loss is 9",
    )
    # A published checkpoint of BERT has a pooler, which its stand-in may lack.
    assert rested(confirmed, "frozen-head", evidence(MODEL)).outcome is Outcome.INCONCLUSIVE
    assert rested(confirmed, "headless-model", evidence(MODEL)).outcome is Outcome.INCONCLUSIVE  # of a guessed family
    assert rested(confirmed, "missing-zero-grad", evidence(MODEL)) is confirmed
    assert rested(confirmed, "loss-far-from-chance", evidence()) is confirmed


def test_nothing_is_said_of_an_argument_that_was_left_out() -> None:
    refuted, message = Verdict.refuted("the rate is 0.1"), "the schedule `constant` ignores `warmup_ratio`"
    left_out = StandIn(
        StandInKind.PACKAGE, "TrainingArguments(warmup_ratio=)", "left out: the installed version lacks it"
    )
    assert rested(refuted, "ignored-warmup", evidence(left_out), message).outcome is Outcome.INCONCLUSIVE
    for kind, name in (
        (StandInKind.DEVICE, "load_in_8bit=True"),
        (StandInKind.PACKAGE, "tokenizer.additional_special_tokens"),
    ):
        message_of = f"`{name.partition('.')[2] or name.partition('=')[0]}` was removed"
        made = StandIn(kind, name, "what took its place")
        assert rested(refuted, "removed-argument", evidence(made), message_of).outcome is Outcome.INCONCLUSIVE
        assert rested(refuted, "removed-argument", evidence(made), "`other` was removed") is refuted
    renamed = replace(left_out, by="warmup_steps=: the installed version lacks it")
    assert rested(refuted, "ignored-warmup", evidence(renamed), message) is refuted
    assert rested(refuted, "ignored-warmup", evidence(left_out), "`lr` is 0") is refuted
    confirmed = Verdict.confirmed("it raises TypeError")
    assert rested(confirmed, "removed-argument", evidence(left_out), "`warmup_ratio` was removed") is confirmed


def test_rules_that_rest_on_stand_ins_exist() -> None:
    known = {rule.name for rule in load_rules()}
    assert {name for names in RESTS_ON.values() for name in names} <= known
    assert set(RESTS_ON) == set(StandInKind)


def test_only_errors_about_values_may_come_from_a_stand_in() -> None:
    run = evidence(MODEL)
    assert may_come_from_stand_in(Failure("KeyError", "'text'", None), run)
    assert not may_come_from_stand_in(Failure("ValueError", "Column 'train' doesn't exist.", None), run)
    assert may_come_from_stand_in(Failure("ValueError", "Column 'text' doesn't exist.", None), run)
    assert not may_come_from_stand_in(
        Failure("TypeError", "`train_dataset` must be a `Dataset`, got `list`", None), run
    )
    assert not may_come_from_stand_in(Failure("NameError", "name 'x' is not defined", None), run)
    unbound = Failure("NameError", "name 'x' is not defined", None, is_of_empty_loop=True)
    assert may_come_from_stand_in(unbound, run)
    assert not may_come_from_stand_in(unbound, evidence())
    assert not may_come_from_stand_in(Failure("TypeError", "got an unexpected keyword argument 'a'", None), run)
    assert not may_come_from_stand_in(Failure("KeyError", "'text'", None), evidence())
    settings = Failure("ValueError", "batch (1) and generations (8)", None, raised_in="trl.Config.__post_init__")
    assert not may_come_from_stand_in(settings, run)
    assert may_come_from_stand_in(settings, evidence(MODEL, CONFIG))


@pytest.mark.parametrize(
    ("kind", "checkpoint", "rests"),
    [
        ("Embedding", "gpt2", False),
        ("Embedding", "somebody/unknown", True),
        ("NoneType", "gpt2", True),
        ("str", "gpt2", True),
        ("DatasetDict", "gpt2", True),
    ],
)
def test_an_attribute_that_a_class_of_a_known_checkpoint_lacks_is_the_scripts_own_error(
    kind: str, checkpoint: str, *, rests: bool
) -> None:
    model = StandIn(StandInKind.MODEL, checkpoint, "GPT2LMHeadModel, 2 layers, random weights")
    failure = Failure("AttributeError", f"'{kind}' object has no attribute 'mean'", None)
    assert may_come_from_stand_in(failure, evidence(model)) is rests


CONFIG = StandIn(StandInKind.ARGUMENT, "--config", "stand-in, as the script requires a value")


def test_an_argument_whose_made_value_fails_is_named() -> None:
    run = evidence(MODEL, CONFIG)
    assert missing_argument(Failure("FileNotFoundError", "No such file: 'stand-in'", None), run) == "--config"
    assert missing_argument(Failure("FileNotFoundError", "No such file: 'stand-in-output'", None), run) is None


def test_lines_below_the_one_that_failed_in_a_function_did_not_run() -> None:
    reached, at = Location("train.py", 244, 5, 244, 11), Location("train.py", 60, 1, 60, 9)
    frames = ("train.py:60 in main: open(path)", "train.py:244 in <module>: main()")
    failure = Failure("FileNotFoundError", "'stand-in'", at, frames=frames, reached=reached)
    run = replace(evidence(), stages=(Stage.failed(StageName.SCRIPT, failure),))
    assert [run.ran(Location("train.py", line, 1, line, 9)) for line in (20, 191, 250)] == [True, False, False]


def test_a_row_that_a_data_set_lacks_is_no_label() -> None:
    [rule] = [each for each in load_rules() if each.name == "label-out-of-range"]
    location = Location("train.py", 3, 1, 3, 9)
    for message, count in (("Invalid key: 20 is out of bounds for size 18", 0), ("Target 3 is out of bounds.", 1)):
        failed = Stage(StageName.SCRIPT, StageStatus.FAILED, 0.0, "", Failure("IndexError", message, location))
        assert len([*rule.rule.suspects(replace(evidence(), stages=(failed,)))]) == count


def test_a_list_that_is_no_batch_is_not_asked_what_tensors_have() -> None:
    [rule] = [each for each in load_rules() if each.name == "unformatted-dataset"]
    location = Location("train.py", 3, 1, 3, 9)
    for name, count in (("get", 0), ("items", 0), ("to", 1), ("size", 1), ("unsqueeze", 1)):
        failure = Failure("AttributeError", f"'list' object has no attribute '{name}'", location)
        run = replace(evidence(), stages=(Stage.failed(StageName.SCRIPT, failure),))
        found = [*rule.rule.suspects(run)]
        assert len(found) == count
        assert all(rule.rule.verify(each, run).outcome is Outcome.CONFIRMED for each in found)


def test_predictions_with_ignored_positions_are_told_from_labels() -> None:
    [rule] = [each for each in load_rules() if each.name == "ignored-index-in-metric"]
    location = Location("train.py", 9, 1, 9, 9)
    for shape, message in (
        ((2, 21), "`decoded` contains -100, which cannot be decoded"),
        ((2, 40), "labels of -100 are decoded, which are no tokens"),
    ):
        given = GivenValue("decoded", "ndarray", kind="array", shape=shape, lowest=-100.0)
        failure = Failure("OverflowError", "number too small to fit in target type", location, given=(given,))
        evaluation = EvaluationEvidence(True, True, True, labels=80, ignored_labels=30, rows=2)
        stages = (Stage.failed(StageName.EVALUATION, failure),)
        run = replace(evidence(), evaluation=evaluation, stages=stages)
        [(found, verdict)] = rule.rule.inspect(run)
        assert (found.message, verdict.outcome) == (message, Outcome.CONFIRMED)
