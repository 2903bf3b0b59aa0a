"""`--also checkpoint`: the step after a checkpoint, in the run that saved it and in a process that resumes from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.evidence.run import Evidence
from tests.support.probing import MENDED, path_for_lintrain, probe
from tests.test_probe_lightning import WHOLE as LIGHTNING

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

LOOP = """
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(640, 8), torch.randint(3, (640,)))
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
start = 0
if os.path.exists("last.pt"):
    saved = torch.load("last.pt")
    net.load_state_dict(saved["net"])
    RESTORE
    start = saved["epoch"] + 1
for epoch in range(start, 50):
    for x, y in train_loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
    schedule.step()
    parts = {"optimizer": optimizer, "schedule": schedule, "scaler": scaler}
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, **states}, "last.pt")
"""
ACCELERATE = """
import os
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(640, 8), torch.randint(3, (640,)))
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
if os.path.isdir("last"):
    accelerator.load_state("last")
for epoch in range(50):
    for x, y in train_loader:
        with accelerator.accumulate(net):
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            optimizer.zero_grad()
    accelerator.save_state("last")
"""

FOUND = """
from transformers.trainer_utils import get_last_checkpoint
trainer.train(resume_from_checkpoint=get_last_checkpoint("out"))
"""
"""It looks into the folder that a Trainer makes."""

WHOLE_BUT_READ = """for name, part in (("optimi" "zer", optimizer), ("schedule", schedule), ("scaler", scaler)):
        part.load_state_dict(saved[name])"""
"""The state is loaded in a way that the text alone does not show."""

LOAD = LOOP.splitlines().index('    net.load_state_dict(saved["net"])') + 1


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, assets: Path) -> None:
    path_for_lintrain(monkeypatch)


def test_a_loop_that_resumes_with_its_weights_alone_is_told_what_it_loses(tmp_path: Path) -> None:
    probed = probe(tmp_path, LOOP.replace("RESTORE", "pass"), "--also", "checkpoint")
    resumed = probed.run["checkpoint"]
    assert ("weights-only-resume", LOAD, "confirmed") in probed.verdicts
    assert (resumed["resumes_by"], resumed["saved_after"], list(resumed["files"])) == ("script", 2, ["last.pt"])
    assert (resumed["weights"], resumed["changed_weights"]) == (4, [])
    assert resumed["optimizer_state"] == len(resumed["lost_state"]) == 12
    assert resumed["learning_rates"] == [0.005, 0.01]
    assert (resumed["scales"], resumed["steps_since_growth"]) == ([1024.0, 1024.0], [2, 0])
    assert max(resumed["losses"]) < 2.0  # as they were before the scaler multiplied them
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_loop_that_resumes_with_everything_is_refuted(tmp_path: Path) -> None:
    probed = probe(tmp_path, LOOP.replace("RESTORE", WHOLE_BUT_READ), "--also", "checkpoint")
    resumed = probed.run["checkpoint"]
    assert probed.code == 0
    assert ("weights-only-resume", LOAD, "refuted") in probed.verdicts
    assert resumed["changed_weights"] == resumed["lost_state"] == resumed["changed_state"] == []
    assert resumed["learning_rates"] == [0.005, 0.005]
    assert (resumed["scales"], resumed["steps_since_growth"]) == ([1024.0, 1024.0], [2, 2])
    assert (resumed["generators"], resumed["repeated_rows"]) == (["torch"], 16)
    assert (resumed["restarted"], resumed["repeats_step"]) == (["torch"], 1)
    assert [rule for rule, _, outcome in probed.verdicts if outcome == "confirmed"] == ["restarted-random-numbers"]


def test_a_trainer_goes_on_from_its_checkpoint_as_if_nothing_had_been(tmp_path: Path) -> None:
    probed = probe(tmp_path, MENDED, "--also", "checkpoint")
    resumed = probed.run["checkpoint"]
    assert (resumed["resumes_by"], resumed["same_batch"], resumed["repeated_rows"]) == ("library", True, 0)
    assert resumed["losses"][0] == pytest.approx(resumed["losses"][1], rel=1e-6)
    assert resumed["changed_weights"] == resumed["lost_state"] == resumed["generators"] == []
    assert resumed["optimizer_state"] > 0
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"} <= set(resumed["files"])
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_trainer_that_saves_its_weights_alone_is_told_what_a_resume_loses(tmp_path: Path) -> None:
    head, train = MENDED.replace('"out"', '"out", save_only_model=True').split("trainer.train()")
    probed = probe(tmp_path, f"{head}{FOUND}{train}", "--also", "checkpoint")
    resumed = probed.run["checkpoint"]
    line = next(number for number, text in enumerate(MENDED.splitlines(), 1) if "TrainingArguments(" in text)
    assert ("weights-only-resume", line, "confirmed") in probed.verdicts
    assert resumed["optimizer_state"] == len(resumed["lost_state"]) > 0
    assert resumed["learning_rates"][1] > resumed["learning_rates"][0]
    assert {"optimizer.pt", "scheduler.pt"}.isdisjoint(resumed["files"])
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_loop_that_accelerate_asks_ahead_for_saves_in_time_and_goes_on_as_it_was(tmp_path: Path) -> None:
    resumed = probe(tmp_path, ACCELERATE, "--also", "checkpoint").run["checkpoint"]
    assert (resumed["resumes_by"], resumed["saved_after"]) == ("script", 2)
    assert {"model.safetensors", "optimizer.bin", "random_states_0.pkl"} <= set(resumed["files"])
    assert (
        resumed["changed_weights"] == resumed["lost_state"] == resumed["changed_state"] == resumed["generators"] == []
    )
    assert resumed["losses"][0] == pytest.approx(resumed["losses"][1], rel=1e-6)


def test_lightning_goes_on_at_the_next_epoch_and_draws_its_rows_anew(tmp_path: Path) -> None:
    resumed = probe(tmp_path, LIGHTNING, "--also", "checkpoint").run["checkpoint"]
    assert (resumed["resumes_by"], list(resumed["files"])) == ("library", ["lintrain.ckpt"])
    assert resumed["changed_weights"] == resumed["lost_state"] == resumed["changed_state"] == []
    assert (resumed["generators"], resumed["rows"], resumed["repeated_rows"]) == (["torch"], 16, 16)
    assert resumed["learning_rates"][0] == resumed["learning_rates"][1]


def test_a_rule_names_the_option_that_would_settle_it() -> None:
    evidence = Evidence("train.py", "torch", "a loop", None, None, "cpu", {})
    assert evidence.unasked("checkpoint") == "`lintrain probe --also checkpoint` measures it"
