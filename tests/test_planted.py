"""Tests that mistakes planted in code of others are found, counted, and sampled fairly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.planted.__main__ import main
from benchmarks.planted.clones import Clone, clones_in
from benchmarks.planted.counting import Checker
from benchmarks.planted.planting import MOST_OF_ONE, load_operators, places_in, planted_at
from benchmarks.planted.tables import Row, table
from lintrain.rulebook import load_rules

SCRIPT = """
import torch
from torch import nn

model = nn.Linear(8, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone with one script, and a unit test of the same text."""
    folder = tmp_path / "someone" / "something"
    (folder / "tests").mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    (folder / "tests" / "test_train.py").write_text(SCRIPT)
    return Clone(folder, "someone/something")


def test_a_removed_zero_grad_is_reported_and_nothing_else_changes(clone: Clone) -> None:
    operators = tuple(each for each in load_operators() if each.name == "zero-grad-removed")
    (planted,) = planted_at(clone, places_in(clone, operators))
    assert planted.place == "someone/something/train.py:12"
    counted = Checker(clone).count(planted)
    assert [finding.rule for finding in counted.named] == ["missing-zero-grad"]
    assert (counted.others, counted.vanished) == ((), 0)


def test_a_finding_of_another_rule_does_not_count_as_reported(clone: Clone) -> None:
    operators = tuple(each for each in load_operators() if each.name == "zero-grad-removed")
    (planted,) = planted_at(clone, places_in(clone, operators))
    other = replace(planted, operator=replace(planted.operator, rules=frozenset({"missing-step"})))
    counted = Checker(clone).count(other)
    assert not counted.is_reported
    assert [finding.rule for finding in counted.others] == ["missing-zero-grad"]


def test_unit_tests_have_no_places_and_a_repository_has_few_of_each_operator(clone: Clone) -> None:
    for number in range(4):
        (clone.path / f"train_{number}.py").write_text(SCRIPT)
    places = places_in(clone, load_operators())
    assert places
    assert all("tests" not in Path(place.file).parts for place in places)
    by_operator = [place.operator for place in places]
    assert max(map(by_operator.count, by_operator)) == MOST_OF_ONE


def test_operators_name_rules_and_say_what_they_plant() -> None:
    known = {rule.name for rule in load_rules()}
    operators = load_operators()
    assert len({operator.name for operator in operators}) == len(operators) >= 30
    assert [operator.name for operator in operators if not operator.rules <= known or not operator.meaning] == []


def test_clones_are_found_by_both_kinds_of_folders_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "owner" / "name").mkdir(parents=True)
    (tmp_path / "b" / "owner+name").mkdir(parents=True)
    (tmp_path / "b" / "owner+other").mkdir()
    assert [each.name for each in clones_in([tmp_path / "a", tmp_path / "b"])] == ["owner/name", "owner/other"]


def test_the_table_counts_each_half(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [
        Row("step-removed", "work", "a/b/c.py:1", ("missing-step",), (), 0, is_exhausted=False),
        Row("step-removed", "measure", "a/d/c.py:1", (), ("missing-backward d.py:3",), 0, is_exhausted=False),
    ]
    assert table(rows, load_operators()).splitlines()[-1] == "| all | 1 operators | 1 of 1 (100%) | 0 of 1 (0%) | 1 |"
    assert main([str(tmp_path)]) == 2
    assert "no clone" in capsys.readouterr().err
