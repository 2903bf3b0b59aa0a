"""What counts of labels say: when one class is nearly all there is, and when counts say nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import ColumnEvidence, Evidence, ModelEvidence, SplitEvidence
from lintrain.evidence.sweep import Sweep, WrongRows
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.rulebook import load_rules

HERE = Location("train.py", 1, 1, 1, 9)
CLAIM = Finding("label-imbalance", Level.WARNING, HERE, "labels are of one class", subject="train_dataset")


def model(task: str, classes: int | None) -> ModelEvidence:
    inputs = ("input_ids", "labels")
    return ModelEvidence(
        "Classifier", inputs, ("labels",), task, classes, (), None, False, True, 8, 8, True, True, "cpu"
    )


def verdict(
    counts: dict[int, int], task: str = "SequenceClassification", classes: int | None = 3, replaced: str = ""
) -> Verdict:
    labels = ColumnEvidence("labels", "class label", "int64", counts=tuple(counts.items()))
    evidence = Evidence(
        "train.py",
        "transformers",
        "Trainer",
        HERE,
        HERE,
        "cpu",
        {},
        splits=(SplitEvidence("train_dataset", sum(counts.values()), (labels,), label_column="labels"),),
        model=model(task, classes) if task else None,
        overrides=(replaced,) if replaced else (),
    )
    rule = next(each.rule for each in load_rules() if each.name == "label-imbalance")
    told = rule.verify(CLAIM, evidence)
    assert [each.message for each, _ in rule.inspect(evidence)] == (
        ["nearly all training labels are of one class, or a class has none"] if told.outcome == "confirmed" else []
    )
    return told


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ({0: 960, 1: 20, 2: 20}, "confirmed"),
        ({0: 950, 1: 30, 2: 20}, "refuted"),
        ({0: 400, 1: 300, 2: 300}, "refuted"),
        # a class of the head that no row has
        ({0: 500, 2: 500}, "confirmed"),
        ({0: 49}, "inconclusive"),
        ({0: 50}, "confirmed"),
        # fewer rows than show that a class is missing
        ({0: 100, 2: 99}, "refuted"),
        ({0: 200}, "confirmed"),
        ({}, "inconclusive"),
    ],
)
def test_the_share_of_the_largest_class_and_empty_classes_count(counts: dict[int, int], outcome: str) -> None:
    assert verdict(counts).outcome == outcome


@pytest.mark.parametrize("task", ["TokenClassification", "CausalLM", ""])
def test_counts_of_what_is_no_whole_row_say_nothing(task: str) -> None:
    assert verdict({0: 1000}, task=task).outcome == "inconclusive"


@pytest.mark.parametrize("replaced", ["compute_loss", "compute_loss_func", "get_train_dataloader", "training_step"])
def test_counts_that_the_trainer_may_make_up_for_say_nothing(replaced: str) -> None:
    assert verdict({0: 1000}, replaced=replaced).outcome == "inconclusive"


def test_other_methods_that_are_replaced_change_no_counts() -> None:
    assert verdict({0: 1000}, replaced="log").outcome == "confirmed"


def test_where_the_head_is_not_known_only_the_largest_class_counts() -> None:
    assert verdict({0: 500, 2: 500}, classes=None).outcome == "refuted"


@pytest.mark.parametrize(
    ("counts", "cause", "follows"),
    [
        ({0: 500, 1: 500}, "missing-num-labels", True),
        ({0: 500, 1: 500}, "raw-dataset", False),
        ({0: 1000}, "missing-num-labels", False),
    ],
)
def test_an_output_without_rows_follows_from_a_head_that_is_too_large(
    counts: dict[int, int], cause: str, follows: bool
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "label-imbalance")
    other = Finding(cause, Level.ERROR, HERE, "the head has 3 outputs")
    assert rule.follows_from(CLAIM, verdict(counts), other) is follows


def judged(rule: str, split: SplitEvidence) -> str:
    """The reason of a rule's verdict on one split, of a model with three classes."""
    evidence = Evidence("train.py", "transformers", "Trainer", HERE, HERE, "cpu", {}, splits=(split,))
    evidence = replace(evidence, model=model("SequenceClassification", 3))
    finding = Finding(rule, Level.ERROR, HERE, "some rows are wrong", subject="train_dataset")
    return next(each.rule for each in load_rules() if each.name == rule).verify(finding, evidence).reason


def test_a_label_beyond_the_head_is_named_with_its_row() -> None:
    labels = ColumnEvidence(
        "1", "integer", "int64", 0, 7, ((0, 60), (7, 1)), rows_read=61, lowest_row=0, highest_row=55
    )
    split = SplitEvidence("train_dataset", 61, (labels,), label_column="1")
    assert judged("missing-num-labels", split) == (
        "labels run from 0 to 7 in 61 rows (7 first in row 55 of train_dataset), the head has 3 outputs"
    )
    repeated = replace(split, sweep=Sweep(61, 61, 0.1, numbered=False))
    assert judged("missing-num-labels", repeated) == "labels run from 0 to 7 in 61 rows, the head has 3 outputs"


def test_every_fault_of_the_rows_is_named() -> None:
    wrong = (
        WrongRows("raises", "", 1, (19,), error="OSError: gone"),
        WrongRows("collation", "0", 2, (4, 8), "9 entries instead of 8", "`collate` raises"),
        WrongRows("constant image", "0", 1, (5,), "every value is 0"),
    )
    split = SplitEvidence("train_dataset", 61, (), sweep=Sweep(61, 61, 0.1, wrong))
    assert judged("failing-rows", split) == (
        "row 19: cannot be read: OSError: gone; "
        "2 rows (4, 8): `0` has 9 entries instead of 8; `collate` raises (train_dataset)"
    )
