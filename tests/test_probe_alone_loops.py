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
LISTED = """class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = [nn.Linear(8, 8), nn.Linear(8, 8)]
        self.out = nn.Linear(8, 3)
    def forward(self, x):
        for layer in self.inside:
            x = layer(x).relu()
        return self.out(x)
net = Listed()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
WRITTEN = """class Positive(nn.Linear):
    def forward(self, x):
        self.weight.data = nn.functional.softplus(self.weight).data
        return super().forward(x)
net = Positive(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
SORTED = """order = rows.tensors[1].argsort()
rows = TensorDataset(*(each[order] for each in rows.tensors))
loader = DataLoader(rows, batch_size=16)
for x, y in loader:
"""
SUMMED = """for index, (x, y) in enumerate(loader):
    loss = criterion(net(x), y)
    loss.backward()
    if index % 2:
        optimizer.step()
        optimizer.zero_grad()
"""
ADDED = """for x, y in loader:
    optimizer.zero_grad()
    also = torch.tensor(criterion(net(x), y).item(), requires_grad=True)
    loss = criterion(net(x), y) + 0.5 * also
    loss.backward()
    optimizer.step()
"""
CUT = """maker = nn.Linear(4, 8)
made_by = torch.optim.SGD(maker.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad(), made_by.zero_grad()
    made = maker(x[:, :4])
    made = made.detach()
    loss = criterion(net(made), y)
    loss.backward()
    optimizer.step(), made_by.step()
"""
MIXED = """for x, y in loader:
    optimizer.zero_grad()
    scores = nn.functional.log_softmax(net(x), dim=0)
    nn.functional.nll_loss(scores, y).backward()
    optimizer.step()
"""
STALE = """x, y = next(iter(loader))
for inputs, targets in loader:
"""
SLOW = """optimizer = torch.optim.AdamW(net.parameters(), lr=1e-9)
for x, y in loader:
"""


def shown(folder: Path, script: str) -> set[tuple[str, int]]:
    """The rules that a run confirms without any finding of the text, each with its line."""
    probe(folder, script, "--evidence", "evidence.json")
    judged = judge(read_record(folder / "evidence.json").runs, [], load_rules())
    return {(each.rule, each.location.line) for each, verdict in judged if verdict.outcome is Outcome.CONFIRMED}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(
    ("script", "rule", "line"),
    [
        (METER + STEPS + "    meter.update(loss)\n", "retained-graph", 14),
        ("for x, y in loader:\n" + DETACHED, "detached-loss", 12),
        (ATTENTION + STEPS, "unsafe-softmax-mask", 17),
        (SCALED, "missing-scaler-update", 14),
        (SLOW + STEPS, "low-learning-rate", 10),
        (LISTED + STEPS, "unregistered-modules", 13),
        (WRITTEN + STEPS, "detached-parameter", 12),
        (SORTED + STEPS, "unshuffled-training-data", 12),
        (SUMMED, "unscaled-accumulation", 12),
        (ADDED, "detached-loss", 12),
        (CUT, "detached-loss", 15),
        (MIXED, "softmax-over-batch", 12),
        (STALE + STEPS, "unused-batch", 13),
    ],
    ids=[
        "meter",
        "detached",
        "mask",
        "scaler",
        "rate",
        "listed",
        "written",
        "sorted",
        "summed",
        "added",
        "cut",
        "mixed",
        "stale",
    ],
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
STARTED = """for x, y in loader:
    optimizer.zero_grad()
    loss = torch.tensor(0.0, requires_grad=True)
    loss = loss + criterion(net(x), y)
    loss.backward()
    optimizer.step()
"""
LOWERED = """accumulation = 2
for group in optimizer.param_groups:
    group["lr"] = 0.1 / accumulation
for index, (x, y) in enumerate(loader):
    loss = criterion(net(x), y)
    loss.backward()
    if index % accumulation:
        optimizer.step()
        optimizer.zero_grad()
"""
TAUGHT = """class Taught(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.teacher, self.out = [teacher], nn.Linear(8, 3)
    def forward(self, x):
        return self.out(x), self.teacher[0](x)
net = Taught(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    scores, wanted = net(x)
    loss = criterion(scores, y) + nn.functional.mse_loss(scores, wanted)
    loss.backward()
    optimizer.step()
"""
CLAMPED = """class Clamped(nn.Linear):
    def forward(self, x):
        self.weight.data = self.weight.data.clamp(-0.1, 0.1)
        return super().forward(x)
net = Clamped(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
AVERAGED = """class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.out = nn.Parameter(torch.zeros(8)), nn.Linear(8, 3)
    def forward(self, x):
        self.mean.data = 0.9 * self.mean.data + 0.1 * x.mean(0)
        return self.out(x - self.mean.detach())
net = Averaged()
optimizer = torch.optim.SGD(net.out.parameters(), lr=0.1)
for x, y in loader:
"""
TOWER = """from transformers import BertConfig, BertModel
config = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=30)
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.heads = BertModel(config), nn.ModuleList([nn.Linear(16, 3), nn.Linear(16, 3)])
    def forward(self, x):
        hidden = self.bert(x.abs().long(), output_hidden_states=True).hidden_states[1][:, 0]
        return HEADS
net = Tower()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for x, y in loader:
"""
PAIRED = """for x, y in loader:
    optimizer.zero_grad()
    alike = net(x) @ net(x + 0.1 * torch.randn_like(x)).T
    own = torch.arange(len(x))
    one, other = (nn.functional.log_softmax(alike, dim=axis) for axis in (0, 1))
    loss = nn.functional.nll_loss(one, own) + nn.functional.nll_loss(other, own)
    loss.backward()
    optimizer.step()
"""
WHOLE = """x, y = rows.tensors
for chosen in DataLoader(torch.arange(96), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    loss = criterion(net(x)[chosen], y[chosen])
    loss.backward()
    optimizer.step()
"""
SKIPS = """few = DataLoader(TensorDataset(torch.randn(97, 8), torch.randint(3, (97,))), batch_size=16)
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in few:
    if len(x) < 2:
        continue
"""


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(
    "script",
    [
        ADVERSARIES,
        WARMED,
        CARRIED,
        SKIPS + STEPS,
        STARTED,
        LOWERED,
        TAUGHT,
        CLAMPED + STEPS,
        PAIRED,
        WHOLE,
    ],
    ids=["adversaries", "warm-up", "carried", "skipped", "started", "lowered", "taught", "clamped", "paired", "whole"],
)
def test_nothing_is_shown_of_a_correct_loop(tmp_path: Path, script: str) -> None:
    assert shown(tmp_path, HEAD + script) == set()


OWN = """class Own(nn.Module):
    def __init__(self):
        {start}
        self.out = nn.Linear(8, 3)
        {init}
    def {forward}(self, x):
        return self.out({given})
net = Own()
optimizer = torch.optim.SGD({weights}, lr=0.1)
for x, y in loader:
"""
SOUND = {
    "start": "super().__init__()",
    "init": "pass",
    "forward": "forward",
    "given": "x.unflatten(1, (2, 4)).transpose(1, 2).reshape(-1, 8)",
    "weights": "net.parameters()",
}
COUNTED = """loader = DataLoader(rows, batch_size=4, shuffle=True)
for index, (x, y) in enumerate(loader):
    (criterion(net(x), y) / 2).backward()
    if {test}:
        optimizer.step()
        optimizer.zero_grad()
"""
ALIKE = """def begin(weight):
    with torch.no_grad():
        weight.copy_({first})
begin(net[0].weight), begin(net[0].bias), begin(net[2].weight)
for x, y in loader:
"""
PLATEAU = """scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
change = scheduler.step
for x, y in loader:
"""
ENDED = [
    ("late-super-init", {"start": "nn.Linear.__init__", "init": "super().__init__()"}, 13),
    ("tensor-for-parameter", {"init": "setattr(self.out, 'bias', torch.zeros(3))"}, 14),
    ("misspelled-method", {"forward": "forwards"}, 21),
    ("non-contiguous-view", {"given": SOUND["given"].replace("reshape", "view")}, 16),
    ("nested-parameters", {"weights": "[each.parameters() for each in net.children()]"}, 18),
]


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(("rule", "changed", "line"), ENDED, ids=[rule for rule, _, _ in ENDED])
def test_what_ends_a_script_is_named_without_its_text(
    tmp_path: Path, rule: str, changed: dict[str, str], line: int
) -> None:
    assert (rule, line) in shown(tmp_path, HEAD + OWN.format(**SOUND | changed) + STEPS)


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(
    ("rule", "bad", "good", "line"),
    [
        (
            "off-by-one-accumulation",
            COUNTED.format(test="index % 2 == 0"),
            COUNTED.format(test="(index + 1) % 2 == 0"),
            14,
        ),
        (
            "constant-weights",
            ALIKE.format(first="torch.full_like(weight, 0.2)") + STEPS,
            ALIKE.format(first="torch.where(weight > 0, 0.2, -0.2)") + STEPS,
            17,
        ),
        (
            "plateau-without-metric",
            PLATEAU + STEPS + "    change()\n",
            PLATEAU + STEPS + "    change(loss.item())\n",
            17,
        ),
        ("late-super-init", "", OWN.format(**SOUND) + STEPS, 0),
    ],
    ids=["first step", "alike", "plateau", "sound network"],
)
def test_a_loop_shows_it_and_its_twin_does_not(tmp_path: Path, rule: str, bad: str, good: str, line: int) -> None:
    assert not bad or (rule, line) in shown(tmp_path, HEAD + bad)
    assert shown(tmp_path, HEAD + good) == set()


def test_a_weight_without_gradient_that_each_pass_averages_is_not_detached(tmp_path: Path) -> None:
    assert {rule for rule, _ in shown(tmp_path, HEAD + AVERAGED + STEPS)} == {"unused-parameters"}


def test_only_what_a_class_of_the_script_leaves_out_is_unused(tmp_path: Path) -> None:
    both = TOWER.replace("HEADS", "self.heads[0](hidden) + self.heads[1](hidden)")
    assert shown(tmp_path, HEAD + both + STEPS) == set()
    one = TOWER.replace("HEADS", "self.heads[1](hidden)")
    assert {rule for rule, _ in shown(tmp_path, HEAD + one + STEPS)} == {"unused-parameters"}
