"""Unit tests: what they are told of, and which files count as some."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.check.check_run import CheckRun
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.knowledge.versions import exactly
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

HELD_ON_TO = """\
import {module}
from transformers import AdamW
from datasets import load_dataset
import torch
import torch.nn.functional as F

rows = load_dataset("glue", "sst2")
rows.shuffle()
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for x, y in [(torch.ones(1, 2), torch.tensor([0]))] * 3:
    optimizer.zero_grad()
    loss = F.cross_entropy(F.softmax(net(x), dim=1), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


def rules_that_speak(name: str, module: str, folder: Path) -> list[str]:
    path = folder / name
    path.write_text(HELD_ON_TO.format(module=module), encoding="utf-8")
    rules = load_rules()
    chosen = ["discarded-map", "removed-name", "retained-graph"]
    selection = choose(known_names(rules), Choice("c", str(folder), chosen), Choice("l", "/"))
    outcome = CheckRun(CheckRequest([str(path)], rules, selection, lambda _: exactly(transformers="5.0"))).check()
    return [one.finding.rule for one in outcome.reported]


def test_unit_tests_hear_only_of_what_a_version_takes_away(tmp_path: Path) -> None:
    assert rules_that_speak("test_net.py", "pytest", tmp_path) == ["removed-name"]


@pytest.mark.parametrize(("name", "module"), [("train_net.py", "pytest"), ("test_net.py", "os")])
def test_scripts_hear_of_everything(name: str, module: str, tmp_path: Path) -> None:
    assert rules_that_speak(name, module, tmp_path) == ["removed-name", "discarded-map", "retained-graph"]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("tests/test_net.py", "import pytest", True),
        ("net_test.py", "from unittest import TestCase", True),
        ("tests/test_net.py", "class TestNet(Base):\n    def test_it_learns(self):\n        ...", True),
        ("tests/a/test_net.py", "def test_it_learns():\n    assert train() < 1", True),
        ("test_net.py", "def test_it_learns():\n    assert train() < 1", False),
        ("tests/test_net.py", "def test_net():\n    evaluate()", False),
        ("test_net.py", "def test_net(net, loader):\n    ...", False),
        ("test_net.py", "class Net(LightningModule):\n    def test_step(self, batch):\n        ...", False),
        ("net.py", "import pytest", False),
        ("tests/loading.py", "import unittest\n\nclass Loading(unittest.TestCase):\n    ...", True),
        ("tests/train.py", "import unittest\n\ntrain()", False),
        ("net/loading.py", "import unittest\n\nclass Loading(unittest.TestCase):\n    ...", False),
    ],
)
def test_unit_tests_are_known_by_name_and_text(path: str, text: str, expected: bool) -> None:
    assert Source(path, text).holds_unit_tests is expected
