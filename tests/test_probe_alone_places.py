"""Where a run shows a mistake with no help from the text: at the statement that makes it, not where the run notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_probe_alone_loops import HEAD, STEPS, shown

pytestmark = pytest.mark.usefixtures("warm")

CLEARED = """for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
"""
EARLY = """for x, y in loader:
    optimizer.zero_grad()
    optimizer.step()
    loss = criterion(net(x), y)
    loss.backward()
"""
NETWORK = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.last = nn.Linear(8, 3), nn.Softmax(dim=-1)
    def forward(self, x):
        scores = self.out(x)
        return {last}
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
LAYERS = """net = nn.Sequential(
    nn.Linear(8, 3),
    nn.Softmax(dim=-1),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
FROZEN = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 3)
    def forward(self, x):
        return self.out(x)
net = Net()
for weight in net.parameters():
    weight.requires_grad = False
net.out.requires_grad_({again})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
PLACES = {
    "cleared before the step": ("wrong-step-order", CLEARED, 13),
    "a step before the gradients": ("wrong-step-order", EARLY, 12),
    "function": ("softmax-before-cross-entropy", NETWORK.format(last="nn.functional.softmax(scores, dim=-1)"), 16),
    "method": ("softmax-before-cross-entropy", NETWORK.format(last="scores.softmax(dim=-1)"), 16),
    "function of torch": ("softmax-before-cross-entropy", NETWORK.format(last="torch.softmax(scores, dim=-1)"), 16),
    "layer that is called": ("softmax-before-cross-entropy", NETWORK.format(last="self.last(scores)"), 16),
    "layer of a sequence": ("softmax-before-cross-entropy", LAYERS, 12),
    "frozen": ("nothing-trainable", FROZEN.format(again="False"), 19),
}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(("rule", "script", "line"), PLACES.values(), ids=PLACES)
def test_a_mistake_is_shown_where_it_is_made(tmp_path: Path, rule: str, script: str, line: int) -> None:
    found = shown(tmp_path, HEAD + script + (STEPS if script.endswith("for x, y in loader:\n") else ""))
    assert {place for name, place in found if name == rule} == {line}


def test_scores_and_weights_that_train_again_are_left_alone(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + NETWORK.format(last="scores") + STEPS) == set()
    assert shown(tmp_path, HEAD + FROZEN.format(again="True") + STEPS) == set()


PRETRAINED = """from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
def collate(chosen):
    longest = max(chosen) % 4 + 4
    ids = torch.stack([torch.cat([torch.randint(1, 30, (n % 4 + 4,)), torch.zeros(longest)])[:longest] for n in chosen])
    ids = ids.long()
    return {{"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor(chosen) % 3}}
loader = DataLoader(
    list(range(96)), batch_size=8, shuffle=True, collate_fn=collate
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=24)
accelerator = Accelerator(cpu=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(2):
    {train}
    for batch in loader:
        loss = model({given}).loss
        accelerator.backward(loss)
        {first}
        {second}
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print(model(**batch).logits.argmax(-1))
"""
SOUND = {
    "train": "model.train()",
    "given": "**batch",
    "first": "optimizer.step()",
    "second": "scheduler.step()",
}
ACCELERATED = [
    ("eval-mode-in-training", {"train": "pass"}, 33),
    ("missing-attention-mask", {"given": 'input_ids=batch["input_ids"], labels=batch["labels"]'}, 28),
    ("scheduler-before-optimizer", {"first": "scheduler.step()", "second": "optimizer.step()"}, 30),
]


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(("rule", "changed", "line"), ACCELERATED, ids=[rule for rule, _, _ in ACCELERATED])
def test_a_loop_of_accelerate_is_measured_as_any_other(
    tmp_path: Path, rule: str, changed: dict[str, str], line: int
) -> None:
    assert (rule, line) in shown(tmp_path, HEAD + PRETRAINED.format(**SOUND | changed))


def test_nothing_is_shown_of_a_correct_loop_of_accelerate(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + PRETRAINED.format(**SOUND)) == set()
