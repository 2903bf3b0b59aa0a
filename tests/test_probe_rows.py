"""Rows of the batches of real runs: loops, their own vocabularies, Lightning, and rows that are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.probing import MENDED, path_for_lintrain, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

class Numbers(Dataset):
    classes = ["even", "odd"]

    def __len__(self):
        return 32

    def __getitem__(self, row):
        return {"features": torch.full((4,), float(row)), "target": row % 2, "index": row}

net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for epoch in range(2):
    for batch in DataLoader(Subset(Numbers(), range(24)), batch_size=8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(batch["features"]), batch["target"]).backward()
        optimizer.step()
    with torch.no_grad():
        for batch in DataLoader(Subset(Numbers(), range(24, 32)), batch_size=8):
            print(net(batch["features"]).argmax(-1))
"""
CHARACTERS = """
import torch
from torch import nn

text = "the cat sat on the mat " * 40
stoi = {character: number for number, character in enumerate(sorted(set(text)))}
ids = torch.tensor([stoi[character] for character in text])
net = nn.Sequential(nn.Embedding(len(stoi), 8), nn.Linear(8, len(stoi)))
optimizer = torch.optim.Adam(net.parameters())
for start in range(0, 400, 16):
    rows = torch.stack([ids[start + row : start + row + 7] for row in range(4)])
    next_ones = torch.stack([ids[start + row + 1 : start + row + 8] for row in range(4)])
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(rows).flatten(0, 1), next_ones.flatten()).backward()
    optimizer.step()
"""

PARTS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(32, 10), torch.arange(32) % 3), batch_size=8)
body = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
head = nn.Linear(16, {outputs})
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
for features, labels in loader:
    optimizer.zero_grad()
    {loss}.backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, assets: Path) -> None:
    path_for_lintrain(monkeypatch)


def tables(folder: Path, script: str, *options: str) -> dict[str, Any]:
    """The tables of the one run, by their argument."""
    return {table["argument"]: table for table in probe(folder, script, *options).run["tables"]}


def test_rows_of_a_loop_have_names_of_classes_predictions_and_columns(tmp_path: Path) -> None:
    found = tables(tmp_path, LOOP)
    assert list(found) == ["train_dataset", "eval_dataset"]
    train = found["train_dataset"]
    assert train["used"] == ["features", "target"]
    first, second, third = train["rows"]
    assert [row["label"]["name"] for row in (first, second, third)] == ["even", "odd", "even"]
    assert [values["values"] for values in second["values"] if values["name"] == "features"] == [[1.0] * 4]
    assert all(row["prediction"]["share"] for row in found["eval_dataset"]["rows"])
    assert sum(each["predicted"] for each in train["classes"]) == sum(each["labels"] for each in train["classes"]) == 8


def test_a_loop_without_a_loader_is_read_by_its_own_vocabulary(tmp_path: Path) -> None:
    table = tables(tmp_path, CHARACTERS)["train_dataset"]
    row = table["rows"][0]
    assert table["tokenizer"] == "`stoi`"
    assert row["texts"][0]["text"] == "the cat"
    assert (row["label"]["text"], row["scored"], row["scorable"]) == ("he cat ", 7, 7)
    assert len(row["prediction"]["text"]) == 7


def test_the_longest_rows_are_those_of_the_whole_data_set(tmp_path: Path) -> None:
    table = tables(tmp_path, MENDED, "--rows", "longest:2")["train_dataset"]
    lengths = [row["texts"][0]["attended"] for row in table["rows"]]
    run_of_all = tables(tmp_path, MENDED, "--rows", "shortest:1")["train_dataset"]["rows"][0]
    assert all(row["is_of_all"] and row["prediction"] for row in (*table["rows"], run_of_all))
    assert max(lengths) == 36
    assert run_of_all["texts"][0]["attended"] < 16


def test_rows_that_do_not_exist_cannot_be_asked_for(tmp_path: Path) -> None:
    refused = probe(tmp_path, MENDED, "--rows", "tallest")
    assert refused.code == 2
    assert "tallest: no such rows" in refused.err


def test_a_head_of_its_own_behind_the_model_gives_the_predictions(tmp_path: Path) -> None:
    loss = "nn.functional.cross_entropy(head(body(features)), labels)"
    table = tables(tmp_path, PARTS.format(outputs=3, loss=loss))["train_dataset"]
    assert [each["value"] for each in table["classes"]] == [0, 1, 2]


def test_outputs_that_are_not_compared_with_the_labels_predict_no_class(tmp_path: Path) -> None:
    loss = "nn.functional.mse_loss(head(body(features)), features)"
    table = tables(tmp_path, PARTS.format(outputs=10, loss=loss))["train_dataset"]
    assert not table["classes"]
    assert table["rows"][0]["prediction"]["text"].count(",") > 5


MISSING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

features, targets = torch.randn(96, 4), torch.randn(96, 2)
features[71, 3] = float("nan")
loader = DataLoader(TensorDataset(features, targets), batch_size=8)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for x, y in loader:
    {before}
    loss = nn.functional.mse_loss(net(x.double().float()), y)
    {after}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ("x = torch.nan_to_num(x)", "", False),
        ("x = x.clone().double().nan_to_num()", "", False),
        ("if torch.isnan(x).any(): continue", "", False),
        ("y = torch.nan_to_num(y)", "", True),
        ("print(x)", "if torch.isnan(loss): break", True),
        ("share = torch.rand(3).isfinite()", "", True),
    ],
    ids=["filled", "filled as a copy", "left out", "another column", "a test of the loss", "something else"],
)
def test_only_a_column_that_is_filled_may_hold_nan(tmp_path: Path, before: str, after: str, is_found: bool) -> None:
    found = probe(tmp_path, MISSING.format(before=before, after=after))
    rules = [rule for rule, _, outcome in found.verdicts if outcome == "confirmed"]
    assert ("non-finite-data" in rules) == is_found, found.out
