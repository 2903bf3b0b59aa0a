"""The fixture `lintrain_probe`, in runs of pytest of its own."""

from __future__ import annotations

import tomllib

import pytest

from tests.conftest import ROOT

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

MADE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def parts(*last):
    net = torch.nn.Sequential(torch.nn.Linear(8, 3), *last)
    rows = TensorDataset(torch.randn(64, 8), torch.randint(3, (64,)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    return dict(model=net, loader=DataLoader(rows, 8), optimizer=optimizer, loss=torch.nn.CrossEntropyLoss())
"""
TESTS = """
from made import parts
import torch

def test_sound(lintrain_probe):
    assert lintrain_probe(**parts()).ok

def test_unsound(lintrain_probe):
    lintrain_probe(**parts(torch.nn.Softmax(dim=1)))

def test_script(lintrain_probe):
    lintrain_probe("train.py", ["--steps", "3"], timeout=60)

def test_missing(lintrain_probe):
    lintrain_probe("nowhere.py")
"""
SCRIPT = """
import sys
from made import parts

assert sys.argv[1:] == ["--steps", "3"]
given = parts()
for x, y in given["loader"]:
    given["optimizer"].zero_grad()
    given["loss"](given["model"](x), y).backward()
    given["optimizer"].step()
raise SystemExit("ends badly")
"""


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder whose pytest loads this plugin by name, and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return pytester


def test_a_test_fails_with_the_report_of_what_it_names(alone: pytest.Pytester) -> None:
    alone.makepyfile(made=MADE, test_runs=TESTS, train=SCRIPT)
    result = alone.runpytest_subprocess("-p", "lintrain.pytest_plugin", "-q")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*lintrain: 1 mistake confirmed*", "*softmax-before-cross-entropy*", "*nowhere.py: no such script*"]
    )


LIGHT = """
import sys

def test_it():
    assert not {"torch", "click", "pydantic", "lintrain.api"} & set(sys.modules)
"""


def test_the_plugin_loads_nothing_before_it_is_used(alone: pytest.Pytester) -> None:
    alone.makepyfile(LIGHT)
    alone.runpytest_subprocess("-p", "lintrain.pytest_plugin").assert_outcomes(passed=1)


def test_an_installed_lintrain_is_a_plugin_of_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"lintrain": "lintrain.pytest_plugin"}
