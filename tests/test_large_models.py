"""Models with more layers than are looked at: what is set on the whole still reaches the parts that a script names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.cli import run

HEAD = """import torch
from torch import nn
from torch.nn import functional as F


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1))
"""
LAYER = "        self.block_{} = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(0.1))\n"
REST = """        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


network = Network()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for epoch in range(2):
    network.train()
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        for x, y in eval_loader:
            print(network.head(network.encoder(x)))
"""


@pytest.mark.parametrize("is_switched", [True, False])
def test_eval_of_a_large_model_reaches_its_first_part(tmp_path: Path, is_switched: bool) -> None:
    text = HEAD + "".join(LAYER.format(number) for number in range(120)) + REST
    script = tmp_path / "train.py"
    script.write_text(text if is_switched else text.replace("    network.eval()\n", ""))
    code = run(["check", "--no-cache", "--isolated", "--select", "train-mode-in-eval", str(script)])
    assert code == (0 if is_switched else 1)
