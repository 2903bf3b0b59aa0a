"""Batches of own rows that torch puts together itself: dictionaries and tuples, however a loop takes them apart."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

HEAD = """
from torch.utils.data import DataLoader, Dataset
net = nn.Linear(8, 1)
optimizer = optim.Adam(net.parameters())
class Rows(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, index):
        return {}
loader = DataLoader(Rows(), batch_size=8, shuffle=True)
"""
LOOP = """
for epoch in range(3):
    for {} in loader:
        {}
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
"""
DICTIONARY = '{"x": torch.zeros(8), "y": 1.5}'
TUPLE = "torch.zeros(8), 1.5"


def reported(row: str, target: str, first: str, head: str = HEAD) -> int:
    """How many losses broadcast their targets."""
    return len(lines_of("broadcast-loss", head.replace("{}", row) + LOOP.format(target, first)))


@pytest.mark.parametrize(
    ("row", "target", "first"),
    [
        (DICTIONARY, "batch", 'x, y = batch["x"], batch["y"]'),
        (DICTIONARY, "batch", 'x, y = batch["x"].to("cuda"), batch["y"].to("cuda")'),
        (
            DICTIONARY,
            "batch",
            'batch = {k: v.to("cuda") for k, v in batch.items()}\n        x, y = batch["x"], batch["y"]',
        ),
        (TUPLE, "x, y", "pass"),
        (TUPLE, "batch", "x, y = batch"),
        (TUPLE, "batch", 'x, y = [part.to("cuda") for part in batch]'),
        (TUPLE, "batch", "x, y = batch[0], batch[1]"),
    ],
)
def test_the_target_of_a_loss_is_followed_to_the_rows(row: str, target: str, first: str) -> None:
    assert reported(row, target, first) == 1


@pytest.mark.parametrize(
    "row",
    [
        '{"x": torch.zeros(8), "y": torch.zeros(1)}',
        '{"x": torch.zeros(8), "y": [1.5]}',
        '{"x": torch.zeros(8), "y": load(index)}',
        '{"x": torch.zeros(8), **load(index)}',
    ],
)
def test_targets_with_an_axis_of_their_own_and_unknown_ones_are_left_alone(row: str) -> None:
    assert not reported(row, "batch", 'x, y = batch["x"], batch["y"]')


def test_no_batch_is_put_together_where_a_loader_gives_single_rows() -> None:
    head = HEAD.replace("batch_size=8", "batch_size=None")
    assert not reported(DICTIONARY, "batch", 'x, y = batch["x"], batch["y"]', head)
    named = HEAD.replace("shuffle=True", "shuffle=True, collate_fn=put_together")
    assert not reported(DICTIONARY, "batch", 'x, y = batch["x"], batch["y"]', named)
