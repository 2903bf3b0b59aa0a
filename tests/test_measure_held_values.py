"""Which statements make values, keep graphs and repeat a loop: found in the frames of a script that is running."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lintrain.runtime.measure.held_values import (
    keeper_of_graphs,
    last_return,
    made_by_statement,
    mark_graph,
    planned_rounds,
)

torch: Any = import_module("torch")

MARK = "asked()"
"""The call at which a script asks what is tested here."""


def ask(folder: Path, script: str, question: Any) -> Any:
    """What a question answers at the marked line of a script, asked from the frames below it."""
    path = folder / "page.py"
    path.write_text(script, encoding="utf-8")
    answers: list[Any] = []
    exec(
        compile(script, str(path), "exec"),
        {"asked": lambda *given: answers.append(question(*given)), "torch": torch, "mark": mark_graph},
    )
    return answers[-1]


@pytest.mark.parametrize(
    ("loops", "rounds"),
    [
        ("for epoch in range(3):\n    for batch in [1, 2]:\n        asked()", (3, False)),
        ("epochs = 4\nfor epoch in range(1, epochs + 1):\n    for batch in [1]:\n        asked()", (4, False)),
        ("for epoch in range(2):\n    for batch in [1, 2]:\n        asked()\n        if batch: break", (2, True)),
        ("for fold in [1]:\n    for batch in [1, 2]:\n        asked()", (None, False)),
        ("asked()", (1, False)),
    ],
)
def test_rounds_are_counted_where_they_are_written(tmp_path: Path, loops: str, rounds: Any) -> None:
    assert ask(tmp_path, loops, planned_rounds) == rounds


TRAINS = """
weight = torch.ones(2, requires_grad=True)
{before}
for batch in range(4):
    loss = (weight * batch).sum()
    mark(loss, batch)
    loss.backward()
    {keeps}
asked(1)
"""


@pytest.mark.parametrize(
    ("before", "keeps", "line"),
    [
        ("total = 0", "total += loss", 8),
        ("losses = []", "losses.append(loss)", 8),
        ("kept = {}", "kept[batch] = loss", 8),
        ("total = 0", "total = total + loss", 8),
        ("total = 0", "total += loss.detach()", None),
        ("losses = []", "losses.append(loss.item())", None),
    ],
)
def test_the_statement_that_keeps_graphs_is_named(tmp_path: Path, before: str, keeps: str, line: int | None) -> None:
    found = ask(tmp_path, TRAINS.format(before=before, keeps=keeps), keeper_of_graphs)
    assert (found.line if found else None) == line


METER = """
class Meter:
    def __init__(self):
        self.sum = 0
    def update(self, value):
        self.sum = self.sum + value
meter = Meter()
weight = torch.ones(2, requires_grad=True)
for batch in range(4):
    loss = (weight * batch).sum()
    mark(loss, batch)
    loss.backward()
    meter.update(loss)
asked(1)
"""


def test_an_object_that_keeps_graphs_is_looked_into(tmp_path: Path) -> None:
    found = ask(tmp_path, METER, keeper_of_graphs)
    assert found.line == 6


def test_the_statement_that_made_a_value_is_the_last_one_above(tmp_path: Path) -> None:
    script = "loss = torch.ones(1)\nother = loss\nloss = torch.zeros(1)\nasked(loss)\nloss = torch.ones(1)"
    assert ask(tmp_path, script, made_by_statement).line == 3


def test_an_attribute_of_a_value_is_no_value(tmp_path: Path) -> None:
    script = "loss = torch.ones(1)\nloss.weight = 2\nasked(loss)"
    assert ask(tmp_path, script, made_by_statement).line == 1


def test_the_last_return_of_a_function_is_found(tmp_path: Path) -> None:
    script = "def make():\n    if True:\n        return 1\n    return 2\nasked(make)"
    assert ask(tmp_path, script, last_return).line == 4
