"""Weights that a load with `strict=False` leaves: what the first gradients of a real run show of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.probing import probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm")]

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 16)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(12))
        self.spare = nn.Linear(16, 16)
        self.top = nn.Linear(16, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.top(x)

net = Net()
saved = {{name: weight + 0.01 for name, weight in net.state_dict().items()}}
{saved}
torch.save(saved, "weights.pt")
given = torch.load("weights.pt")
net.load_state_dict(torch.load("weights.pt"), strict=False)
{after}
optimizer = torch.optim.SGD([each for each in net.parameters() if each.requires_grad], lr=0.01)
for x, y in DataLoader(TensorDataset(torch.randn(32, 8), torch.arange(32) % 3), batch_size=8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
WITHOUT = "del saved['{0}.weight'], saved['{0}.bias']"
RENAMED = "saved['old.weight'], saved['old.bias'] = saved.pop('blocks.3.weight'), saved.pop('blocks.3.bias')"


@pytest.mark.parametrize(
    ("saved", "after", "outcome", "words"),
    [
        (
            WITHOUT.format("blocks.3"),
            "net.requires_grad_(False); net.top.requires_grad_(True)",
            "confirmed",
            "2 of them keep their initial values and are used, but never train: `blocks.3.weight`, `blocks.3.bias`",
        ),
        (RENAMED, "", "confirmed", "2 weights of the file were skipped, the same shapes among them"),
        (WITHOUT.format("top"), "", "refuted", "they are in the last layers, which train: `top.weight`, `top.bias`"),
        (WITHOUT.format("spare"), "", "refuted", "the loss uses none of them: `spare.weight`, `spare.bias`"),
        (
            WITHOUT.format("blocks.3"),
            "nn.init.zeros_(net.blocks[3].bias); nn.init.eye_(net.blocks[3].weight)",
            "refuted",
            "other code sets them before training",
        ),
        (WITHOUT.format("blocks.3"), "net.load_state_dict(net.state_dict())", "refuted", "other code sets them"),
        (WITHOUT.format("blocks.3"), "", "inconclusive", "2 of 30 weights were missing in the file"),
    ],
    ids=["frozen", "another name", "new head", "unused", "set", "loaded later", "a new layer inside"],
)
def test_a_run_shows_what_became_of_missing_weights(
    tmp_path: Path, saved: str, after: str, outcome: str, words: str
) -> None:
    found = probe(tmp_path, SCRIPT.format(saved=saved, after=after))
    findings: list[Any] = [each for each in found.document["findings"] if each["rule"] == "ignored-missing-keys"]
    assert [each["verdict"]["outcome"] for each in findings] == [outcome], found.out
    assert words in findings[0]["verdict"]["reason"]
