"""`--also ranks` on loops with accelerate and Fabric: each planted fault is confirmed, its mended twin is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import read_record
from tests.support.probing import Probed, path_for_lintrain, probe

EVIDENCE = "evidence.json"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

ACCELERATE = """
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup

torch.manual_seed(0)
rows = TensorDataset(torch.randn(640, 8), torch.arange(640) % 3)
held_out = TensorDataset(torch.randn(132, 8), torch.arange(132) % 3)
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
eval_loader = DataLoader(held_out, batch_size=16)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
accelerator = Accelerator(cpu=True)
epochs = 3
PREPARED
for epoch in range(epochs):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()
        scheduler.step()
    net.eval()
    correct = 0
    for x, y in eval_loader:
        with torch.no_grad():
            predictions = net(x).argmax(dim=-1)
        predictions, labels = accelerator.GATHER((predictions, y))
        correct += (predictions == labels).sum().item()
    accelerator.print(correct / len(held_out))
"""

LATE_LENGTH = """#
net, optimizer, train_loader, eval_loader = accelerator.prepare(net, optimizer, train_loader, eval_loader)
scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(train_loader) * epochs)
scheduler = accelerator.prepare(scheduler)
with torch.no_grad():
    accelerator.unwrap_model(net)[0].bias += accelerator.process_index"""

EARLY_LENGTH = """#
scheduler = get_linear_schedule_with_warmup(optimizer, 0, len(train_loader) * epochs)
net, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
    net, optimizer, train_loader, eval_loader, scheduler
)"""
"""Its second line, too, is the one that makes the schedule."""

FABRIC = """
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(640, 8), torch.arange(640) % 3)
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
SET_UP
for epoch in range(3):
    for x, y in train_loader:
        optimizer.zero_grad()
        fabric.backward(criterion(net(x), y))
        optimizer.step()
if fabric.is_global_zero:
    torch.save(net.state_dict(), "net.pt")
"""

MODEL = "net, optimizer = fabric.setup(net, optimizer)"
OPTIMIZER = "optimizer = fabric.setup_optimizers(optimizer)"
LOADER = "train_loader = fabric.setup_dataloaders(train_loader)"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)


def outcomes(probed: Probed) -> dict[str, str]:
    return {rule: outcome for rule, _, outcome in probed.verdicts}


def planted(rule: str, script: str, line: str, folder: Path) -> Verdict:
    """What a run says of a claim about the line of a script that holds some text."""
    number = next(number for number, text in enumerate(script.splitlines(), 1) if line in text)
    claim = Finding(rule, Level.ERROR, Location("train.py", number, 1, number, 80), "it is claimed")
    (evidence,) = read_record(folder / EVIDENCE).runs
    return next(each.rule for each in load_rules() if each.name == rule).verify(claim, evidence)


def test_a_gather_with_repeated_rows_a_short_schedule_and_a_changed_replica_are_confirmed(tmp_path: Path) -> None:
    script = ACCELERATE.replace("PREPARED", LATE_LENGTH).replace("GATHER", "gather")
    probed = probe(tmp_path, script, "--also", "ranks", "--evidence", EVIDENCE)
    ranks = probed.run["ranks"]
    (gather,) = ranks["gathers"]
    assert (gather["function"], gather["gathered"], gather["fetched"], gather["rows"]) == ("gather", 64, 64, 36)
    assert ranks["schedules"] == [{"name": "LambdaLR", "steps_per_update": 2, "length": 60}]
    assert (ranks["batches"], ranks["shared_rows"], ranks["different_weights"]) == ([20, 20], 0, ["0.bias"])
    assert {rule for rule, outcome in outcomes(probed).items() if outcome == "confirmed"} == {
        "duplicated-eval-rows",
        "multiplied-scheduler-steps",
        "unsynchronized-replicas",
    }


CACHED = """
import os, tempfile
with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as part:
    part.write("rows")
os.replace(part.name, "rows.cache")
"""
"""As `Dataset.map` puts its cache in place: each process renames a whole file of its own."""


def test_their_mended_twin_is_refuted(tmp_path: Path) -> None:
    script = CACHED + ACCELERATE.replace("PREPARED", EARLY_LENGTH).replace("GATHER", "gather_for_metrics")
    probed = probe(tmp_path, script, "--also", "ranks", "--evidence", EVIDENCE)
    run = probed.run
    assert [write for write in run["ranks"]["writes"] if write["path"] == "rows.cache"] == []
    assert (probed.code, run["ranks"]["is_joined"], run["ranks"]["batches"]) == (0, True, [20, 20])
    assert (run["ranks"]["apart"], run["ranks"]["shared_rows"], run["ranks"]["same_batches"]) == ([], 0, 0)
    for rule, line in (
        ("duplicated-eval-rows", "gather_for_metrics"),
        ("multiplied-scheduler-steps", "get_linear_schedule_with_warmup("),
        ("unsynchronized-replicas", "accelerator.backward"),
        ("undivided-rows", "accelerator.backward"),
    ):
        assert planted(rule, script, line, tmp_path).outcome == "refuted", rule


def test_a_model_that_fabric_did_not_wrap_is_one_of_each_process(tmp_path: Path) -> None:
    script = FABRIC.replace("SET_UP", f"{OPTIMIZER}\n{LOADER}")
    probed = probe(tmp_path, script, "--also", "ranks", "--evidence", EVIDENCE)
    ranks = probed.run["ranks"]
    assert (ranks["different_weights"], ranks["rows"], ranks["shared_rows"]) == ([], [32, 32], 0)
    assert len(ranks["different_gradients"]) == len(ranks["apart"]) == 4
    assert outcomes(probed)["unsynchronized-replicas"] == "confirmed"
    assert planted("undivided-rows", script, "fabric.backward", tmp_path).outcome == "refuted"
    assert [write["ranks"] for write in ranks["writes"] if write["path"] == "net.pt"] == [[0]]


def test_a_loader_that_fabric_did_not_get_gives_every_process_all_rows(tmp_path: Path) -> None:
    script = FABRIC.replace("SET_UP", MODEL)
    probed = probe(tmp_path, script, "--also", "ranks", "--evidence", EVIDENCE)
    ranks = probed.run["ranks"]
    assert (ranks["batches"], ranks["rows"], ranks["shared_rows"]) == ([40, 40], [32, 32], 32)
    assert (ranks["same_batches"], ranks["apart"], ranks["different_gradients"]) == (2, [], [])
    assert {"undivided-rows", "unprepared-object"} & {
        rule for rule, outcome in outcomes(probed).items() if outcome == "confirmed"
    }
    assert planted("unsynchronized-replicas", script, "fabric.backward", tmp_path).outcome == "refuted"
