"""Files that only define networks: which rules read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.cli import run

NETWORK = """
from torch import nn

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8)] * 4)

    def forward(self, x):
        return nn.Sigmoid(x)
"""


def reported(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> list[str]:
    (folder / "network.py").write_text(text)
    run(["check", "--isolated", "--no-cache", "--exit-zero", "--output-format", "concise", str(folder)])
    return [line for line in capsys.readouterr().out.splitlines() if "network.py:" in line]


def test_a_file_without_training_is_read_by_rules_about_networks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = reported(capsys, tmp_path, NETWORK)
    assert ["repeated-module" in line for line in lines] == [True, False]
    assert ["unapplied-layer" in line for line in lines] == [False, True]


def test_a_network_of_another_library_is_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (
        reported(capsys, tmp_path, NETWORK.replace("from torch import nn", "from torchlike import nn  # torch")) == []
    )


STAGES = """
from torch import nn

class Stages(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.stages = self.make(depth)

    def make(self, depth):
        made = []
        for _ in range(depth):
            made.append(nn.Linear(8, 8))
        return made

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x
"""


def test_a_list_that_a_method_fills_makes_a_network_worth_reading(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (line,) = reported(capsys, tmp_path, STAGES)
    assert "[unregistered-modules]" in line
    assert reported(capsys, tmp_path, STAGES.replace("return made", "return nn.ModuleList(made)")) == []
