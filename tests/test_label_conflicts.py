"""Rows that the model cannot tell apart and that have different labels: also where only capital letters differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from lintrain.evidence.run import EncodedTexts, Evidence, LabelConflicts, ModelEvidence
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from lintrain.runtime.child.label_rows import conflicts_in

HERE = Location("train.py", 1, 1, 1, 9)


def found_in(rows: Dataset) -> tuple[int, int]:
    """The rows that conflict, as written and in lower case."""
    found = conflicts_in(rows)
    assert found is not None
    return found.conflicting, found.in_lower_case


def test_rows_conflict_as_written_and_in_lower_case() -> None:
    texts = ["an apple", "an Apple", "a pear", "a pear", "Ärger", "ärger", None, None]
    assert found_in(Dataset.from_dict({"text": texts, "label": [0, 1, 0, 1, 2, 2, 0, 1]})) == (2, 4)


def test_capital_letters_after_the_part_that_is_compared_first_count() -> None:
    start = "word " * 40
    assert found_in(Dataset.from_dict({"text": [f"{start}may", f"{start}May"], "label": [0, 1]})) == (0, 2)


def test_words_conflict_by_the_classes_of_all_of_them() -> None:
    rows = {
        "tokens": [["by", "apple"], ["by", "Apple"], ["by apple"], ["a", "pear"], ["a", "pear"]],
        "tags": [[0, 0], [0, 1], [3], [0, 2], [0, 2]],
    }
    named = Features({"tokens": List(Value("string")), "tags": List(ClassLabel(4))})
    assert found_in(Dataset.from_dict(rows)) == (0, 2)
    assert found_in(Dataset.from_dict(rows, features=named)) == (0, 2)
    assert found_in(Dataset.from_dict(rows).select([1, 0, 3])) == (0, 2)


def test_tables_with_other_columns_are_not_compared() -> None:
    pairs = Features({"tokens": List(Value("string"), length=2), "tags": List(ClassLabel(4), length=2)})
    assert conflicts_in(Dataset.from_dict({"tokens": [["a", "b"]], "tags": [[0, 1]]}, features=pairs)) is None
    assert conflicts_in(Dataset.from_dict({"tokens": [["a", "b"]], "scores": [[0, 1]]})) is None


def outcome(task: str, *losses: tuple[int, int], conflicting: int = 0, in_lower_case: int = 40) -> Outcome:
    """What is said of 1,200 rows; each call of a tokenizer has texts with capital letters, and texts that lose them."""
    names = ("input_ids", "labels")
    model = ModelEvidence("Tagger", names, names[1:], task, 3, (), None, False, True, 8, 8, True, True, "cpu")
    evidence = Evidence("train.py", "transformers", "Trainer", HERE, HERE, "cpu", {}, model=model)
    conflicts = LabelConflicts(1_200, 1_200, conflicting, ("text",), "label", in_lower_case)
    encodings = tuple(EncodedTexts(HERE, 9, with_capitals=one, lost_capitals=lost) for one, lost in losses)
    rule = next(each.rule for each in load_rules() if each.name == "conflicting-labels")
    claim = Finding("conflicting-labels", Level.WARNING, HERE, "labels differ", subject="train_dataset")
    return rule.verify(claim, replace(evidence, conflicts=conflicts, encodings=encodings)).outcome


@pytest.mark.parametrize("task", ["SequenceClassification", "TokenClassification"])
def test_only_a_tokenizer_that_loses_capital_letters_makes_such_rows_equal(task: str) -> None:
    assert outcome(task, (9, 9), (0, 0)) is Outcome.CONFIRMED
    assert outcome(task, (9, 9), (4, 0)) is Outcome.REFUTED
    assert outcome(task, (9, 9), in_lower_case=0) is Outcome.REFUTED
    assert outcome(task) is Outcome.REFUTED
    assert outcome(task, conflicting=40) is Outcome.CONFIRMED


def test_a_model_that_writes_texts_has_no_such_labels() -> None:
    assert outcome("CausalLM", (9, 9)) is Outcome.INCONCLUSIVE
