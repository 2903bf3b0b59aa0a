"""How long batches and steps take: in a loop of the script's own, under the Trainer, under Lightning."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.evidence.memory import ThroughputEvidence
from lintrain.evidence.run import Evidence
from lintrain.report.text.stage_numbers import numbers
from tests.support.probing import MENDED, probe
from tests.test_probe_memory import LIGHTNING

pytestmark = pytest.mark.turns(one_in=3, of="file")

SLOW_ROWS = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(6)


model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in DataLoader(Rows(), batch_size=8, num_workers=2):
    optimizer.zero_grad()
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item(), loss.item())
    time.sleep(0.02)
"""


def test_a_loop_is_timed_without_what_the_probe_does_in_between(tmp_path: Path) -> None:
    probed = probe(tmp_path, SLOW_ROWS, "--also", "throughput")
    pace = probed.run["throughput"]
    assert probed.stages["throughput"] == "passed"
    assert 0.08 <= pace["batch_seconds"] < 0.8
    assert 0.02 <= pace["step_seconds"] < 0.2
    assert pace["rows"] == 8
    assert pace["workers"] == 2
    assert pace["synchronizing"] == {"item": 2.0}
    assert len(pace["operators"]) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_trainers_loader_and_steps_are_timed(tmp_path: Path) -> None:
    probed = probe(tmp_path, MENDED, "--also", "throughput")
    pace = probed.run["throughput"]
    assert pace["step_seconds"] > pace["batch_seconds"] > 0
    assert pace["rows"] == 8
    assert pace["tokens"] > 8
    assert pace["synchronizing"] == {}


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_a_run_of_lightning_is_timed(tmp_path: Path) -> None:
    pace = probe(tmp_path, LIGHTNING, "--also", "throughput").run["throughput"]
    assert pace["rows"] == 512
    assert pace["batch_seconds"] > 0
    assert pace["step_seconds"] > 0


def test_the_numbers_say_what_waits_for_what() -> None:
    pace = ThroughputEvidence(8, 16, 0.3, 0.1, 2, 4, {"item": 2.0}, (("aten::mm", 0.5),))
    evidence = Evidence("train.py", "torch", "a loop", None, None, "cpu", {}, throughput=pace)
    assert numbers(evidence, "throughput") == (
        "pace 20 rows, 320 tokens per second on this machine's CPU; batch 300 ms to load, 100 ms to train on; "
        "waiting 75% of the time with one loading process; less with 2 workers; syncs `item` 2 times per step, each of "
        "which synchronizes a GPU; slowest aten::mm 50%"
    )
