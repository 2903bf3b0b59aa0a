"""A loop that several processes run is watched in each of them: one warns, and names itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.probing import path_for_lintrain

pytestmark = [pytest.mark.slow, pytest.mark.turns(one_in=3, of="file")]

LOOP = """
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn

import lintrain

store, number, culprits = sys.argv[1], int(sys.argv[2]), [int(each) for each in sys.argv[3].split(",")]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
warnings.simplefilter("always")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    rows = torch.randn(8, 4)
    if step == 6 and number in culprits:
        rows[0, 0] = float("nan")
    loss = nn.functional.cross_entropy(model(rows), torch.zeros(8, dtype=torch.long))
    lintrain.watch(loss, batch=rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
"""
WARNING = re.compile(
    r"rank \d: (?:\S+:\d+: error\[non-finite\] the loss is not finite at step \d+|non-finite at step .*)"
)


def warnings_of(folder: Path, culprits: str) -> list[str]:
    (folder / "train.py").write_text(LOOP)
    command = [sys.executable, "train.py", str(folder / "store")]
    started = [
        subprocess.Popen([*command, number, culprits], cwd=folder, stderr=subprocess.PIPE, text=True) for number in "01"
    ]
    errors = [each.communicate(timeout=240)[1] for each in started]
    assert [each.returncode for each in started] == [0, 0], errors
    found = [WARNING.findall(text) for text in errors]
    return sorted((re.sub(r"\S+train.py", "train.py", each) for texts in found for each in texts), key=len)


def test_the_process_with_the_bad_batch_warns_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    assert warnings_of(tmp_path, "1") == ["rank 1: train.py:22: error[non-finite] the loss is not finite at step 7"]


def test_processes_that_fail_together_are_named_in_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    named, whole = warnings_of(tmp_path, "0,1")
    assert re.fullmatch(r"rank (\d): non-finite at step 7, as in rank (?!\1)\d", named)
    assert whole.endswith("error[non-finite] the loss is not finite at step 7")
