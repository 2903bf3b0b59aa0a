"""What runs of loops show with no help from the text: mistakes at their statements, and nothing in correct loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import read_record
from lintrain.verdicts.judging import judge
from tests.support.probing import probe

pytestmark = pytest.mark.usefixtures("warm")

HEAD = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
loader = DataLoader(rows, batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
"""
STEPS = """    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
"""
METER = """class Meter:
    def __init__(self):
        self.sum = 0
    def update(self, value):
        self.sum = self.sum + value
meter = Meter()
for x, y in loader:
"""
ATTENTION = """class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(8, 8)
        self.out = nn.Linear(8, 3)
    def forward(self, x):
        scores = (self.inside(x) @ x.T).half()
        scores = scores.masked_fill(scores < 0, -1e9)
        return self.out(scores.float().softmax(dim=-1) @ x)
net = Attention()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
SCALED = """scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    scaler.scale(criterion(net(x), y)).backward()
    scaler.step(optimizer)
"""
DETACHED = STEPS.replace("(net(x), y)", "(net(x), y).detach().requires_grad_()")
SLOW = """optimizer = torch.optim.AdamW(net.parameters(), lr=1e-9)
for x, y in loader:
"""


def shown(folder: Path, script: str) -> set[tuple[str, int]]:
    """The rules that a run confirms without any finding of the text, each with its line."""
    probe(folder, script, "--evidence", "evidence.json")
    judged = judge(read_record(folder / "evidence.json").runs, [], load_rules())
    return {(each.rule, each.location.line) for each, verdict in judged if verdict.outcome is Outcome.CONFIRMED}


@pytest.mark.parametrize(
    ("script", "rule", "line"),
    [
        (METER + STEPS + "    meter.update(loss)\n", "retained-graph", 14),
        ("for x, y in loader:\n" + DETACHED, "detached-loss", 12),
        (ATTENTION + STEPS, "unsafe-softmax-mask", 17),
        (SCALED, "missing-scaler-update", 14),
        (SLOW + STEPS, "low-learning-rate", 10),
    ],
    ids=["meter", "detached", "mask", "scaler", "rate"],
)
def test_a_run_shows_the_mistake_at_its_statement(tmp_path: Path, script: str, rule: str, line: int) -> None:
    assert (rule, line) in shown(tmp_path, HEAD + script)


ADVERSARIES = """judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
maker = nn.Linear(4, 8)
judged_by = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
made_by = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
right = nn.BCEWithLogitsLoss()
for epoch in range(2):
    for x, y in loader:
        judged_by.zero_grad()
        real = right(judge(x), torch.ones(len(x), 1))
        real.backward()
        made = maker(torch.randn(len(x), 4))
        fake = right(judge(made.detach()), torch.zeros(len(x), 1))
        fake.backward()
        judged_by.step()
        made_by.zero_grad()
        fooled = right(judge(made), torch.ones(len(x), 1))
        fooled.backward()
        made_by.step()
"""
WARMED = """epochs = 3
warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
falls = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader) - 3)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, falls], milestones=[3])
best = None
for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        if best is None or loss < best:
            best = loss
"""
CARRIED = """cell, head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3)
state = None
for x, y in loader:
    optimizer.zero_grad()
    hidden, state = cell(x.unsqueeze(1), state)
    loss = criterion(head(hidden[:, 0]), y)
    loss.backward()
    optimizer.step()
    state = state.detach()
"""
SKIPS = """few = DataLoader(TensorDataset(torch.randn(97, 8), torch.randint(3, (97,))), batch_size=16)
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in few:
    if len(x) < 2:
        continue
"""


@pytest.mark.parametrize(
    "script",
    [ADVERSARIES, WARMED, CARRIED, SKIPS + STEPS],
    ids=["adversaries", "warm-up", "carried state", "skipped batch"],
)
def test_nothing_is_shown_of_a_correct_loop(tmp_path: Path, script: str) -> None:
    assert shown(tmp_path, HEAD + script) == set()
