"""Shapes and kinds of arrays that NumPy and scikit-learn make, on their way into a loss."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.model import Tensor
from tests.support.loops import lines_of, pipeline_of

HEAD = """
import numpy as np
import torch
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
rng = np.random.default_rng(0)
state = np.random.RandomState(0)
x = rng.normal(size=(90, 6))
"""


def described(code: str) -> tuple[str, str]:
    """The shape and kind of the array that a line makes, empty where it is none."""
    bindings = pipeline_of(f"{HEAD}it = {code}\n").bindings
    made = [each.value for each in bindings if each.name == "it" and isinstance(each.value, Tensor)]
    return (str(made[0].shape), made[0].kind) if made else ("", "")


@pytest.mark.parametrize(
    ("code", "shape", "kind"),
    [
        ("x", "(90, 6)", "float"),
        ("rng.uniform(0, 1, (4, 2))", "(4, 2)", "float"),
        ("rng.integers(0, 3, size=90)", "(90,)", "int"),
        ("rng.random(5)", "(5,)", "float"),
        ("state.randn(3, 2)", "(3, 2)", "float"),
        ("np.random.randint(0, 2, 7)", "(7,)", "int"),
        ("x @ rng.normal(size=6)", "(90,)", "float"),
        ("x @ rng.normal(size=(6, 2))", "(90, 2)", "float"),
        ("x[0] @ x[1]", "()", "float"),
        ("x @ rng.normal(size=6) + 0.1 * rng.normal(size=90)", "(90,)", "float"),
        ("np.sin(np.linspace(0, 1, 50)).reshape(-1, 1)", "(N, 1)", ""),
        ("rng.random(5)[:, np.newaxis]", "(5, 1)", "float"),
        ("train_test_split(x, x[:, 0])[3]", "(N,)", "float"),
        ("StandardScaler().fit_transform(x)", "(90, 6)", "float"),
        ("make_regression(100, 4)[1]", "(N,)", "float"),
        ("make_classification(100)[1]", "(N,)", "int"),
        ("torch.tensor(rng.integers(0, 3, 90), dtype=torch.float32)", "(90,)", "float"),
        ("torch.from_numpy(x).float()", "(90, 6)", "float"),
        ("torch.FloatTensor(rng.integers(0, 3, 90))", "(90,)", "float"),
        ("torch.tensor([sorted(set(text)).index(word) for word in text])", "(N,)", "int"),
    ],
)
def test_shape_and_kind_of_an_array_are_known(code: str, shape: str, kind: str) -> None:
    assert described(code) == (shape, kind)


@pytest.mark.parametrize(
    "code",
    [
        "rng.normal()",
        "rng.normal(mean, scale)",
        "train_test_split(*arrays)[0]",
        "make_regression(100, n_targets=2)[1]",
        "StandardScaler().fit_transform(frame)",
    ],
)
def test_what_may_be_anything_is_no_array(code: str) -> None:
    assert described(code) == ("", "")


@pytest.mark.parametrize(
    "code",
    [
        "rng.normal(size=size)",
        "x @ weights",
        "x @ rng.normal(size=shape)",
    ],
)
def test_a_size_that_is_not_known_leaves_the_shape_open(code: str) -> None:
    assert described(code)[0] in {"", "(…,)", "(…)"}


@pytest.mark.parametrize("change", ["x.resize((540, 1))", "x.shape = (540, 1)", "x.shape = shape"])
def test_an_array_that_is_reshaped_where_it_is_has_no_known_shape(change: str) -> None:
    assert described(f"0\n{change}\nit = x[:-1]")[0] == "(…,)"


def test_a_table_of_prices_meets_a_column_of_predictions() -> None:
    code = """
import numpy as np
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng(0)
x, y = rng.normal(size=(90, 6)), rng.normal(size=90)
x, _, y, _ = train_test_split(x, y)
net = nn.Linear(6, 1)
for rows, prices in DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=9):
    F.mse_loss(net(rows), prices).backward()
"""
    assert lines_of("broadcast-loss", code) == [9]
    assert lines_of("broadcast-loss", code.replace("net(rows)", "net(rows).squeeze(-1)")) == []


def test_rows_that_were_made_anew_do_not_take_a_model_off_its_graph() -> None:
    code = """
import numpy as np
rows = torch.tensor(np.random.randn(9, 6))
net = nn.Sequential(nn.Linear(6, 3), nn.ReLU())
optimizer = optim.SGD(net.parameters())
for _, labels in torch.utils.data.DataLoader(data):
    loss = F.cross_entropy(net(rows), labels)
    loss.backward()
    optimizer.step()
"""
    assert lines_of("detached-loss", code) == []
    assert lines_of("detached-loss", code.replace("net(rows), ", "net(rows).detach(), "))
