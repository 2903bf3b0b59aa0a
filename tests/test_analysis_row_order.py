"""What shuffles rows, or means their order: only what the rows are made of counts, not what else a script does."""

from __future__ import annotations

import pytest

from tests.support.loops import MADE, lines_of

HEAD = """
import random
import numpy as np
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification

class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        return self.rows[index]
"""
LOADED = """
rows = [(np.load(name), 1) for name in names]
data = Rows(rows)
loader = DataLoader(data, batch_size=8)
"""
LOOP = """
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


def reported(code: str) -> int:
    """How many loaders are reported."""
    return len(lines_of("unshuffled-training-data", HEAD + MADE + code + LOOP))


@pytest.mark.parametrize(
    "elsewhere",
    [
        "",
        "noise = torch.randn(8)\n",
        "random.shuffle(colours)\nnp.random.shuffle(seeds)\n",
        "other = AutoModelForSequenceClassification.from_pretrained('bert-base-uncased')\n",
        "window = 3\n",
        "def try_it():\n    rows = random.sample(texts, 3)\n    return model.generate(rows)\n",
        "class Noise(Dataset):\n    def __getitem__(self, index):\n        return torch.randn(8)\n",
        "train, test = train_test_split(frame)\n",
    ],
)
def test_what_the_rows_are_not_made_of_says_nothing_about_them(elsewhere: str) -> None:
    assert reported(elsewhere + LOADED) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data = Rows", "random.shuffle(rows)\ndata = Rows"),
        ("data = Rows", "rows, held_out = train_test_split(rows)\ndata = Rows"),
        ("data = Rows(rows)", "def make(rows):\n    return Rows(random.sample(rows, 9))\ndata = make(rows)"),
        ("data = Rows(rows)", "def make(given):\n    return Rows(given)\ndata = make(random.sample(rows, 9))"),
        ("data = Rows(rows)", "shuffled = np.random.permutation(rows)\nkept = [*shuffled]\ndata = Rows(kept)"),
        ("names]", "windows]"),
        ("data = Rows(rows)", "data = Rows(rows[rows.Date < '2021-01-01'])"),
    ],
)
def test_rows_that_are_made_of_something_shuffled_are_left_alone(old: str, new: str) -> None:
    assert not reported(LOADED.replace(old, new))


def test_a_class_that_draws_its_rows_is_left_alone() -> None:
    drawn = HEAD.replace("return self.rows[index]", "return torch.randn(8), self.pick(index)")
    by_method = HEAD.replace("self.rows = rows", "self.rows = self.mixed(rows)") + (
        "    def mixed(self, rows):\n        return random.sample(rows, len(rows))\n"
    )
    for head in (drawn, by_method):
        assert not lines_of("unshuffled-training-data", head + MADE + LOADED + LOOP)


def test_state_that_is_carried_from_batch_to_batch_needs_the_order() -> None:
    assert not reported(LOADED + "hidden = repackage_hidden(hidden)\n")
