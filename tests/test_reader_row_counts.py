"""How many rows torch's data sets have, where the script tells it."""

from __future__ import annotations

import pytest

from lintrain.pipeline.values.loading import TorchDataset
from tests.support.loops import pipeline_of


def rows(code: str) -> int | None:
    pipeline = pipeline_of(
        f"import torch\nfrom torch.utils.data import TensorDataset, random_split\n"
        f"x, y = torch.randn(97, 8), torch.zeros(97)\n{code}"
    )
    dataset = next(binding.value for binding in reversed(pipeline.bindings) if binding.name == "rows")
    assert isinstance(dataset, TorchDataset)
    return dataset.rows


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("rows = TensorDataset(x, y)", 97),
        ("rows = TensorDataset(torch.load('x.pt'))", None),
        ("rows, _ = random_split(TensorDataset(x, y), [80, 17])", 80),
        ("_, rows = random_split(TensorDataset(x, y), [80, 17])", 17),
        ("rows, _ = random_split(TensorDataset(x, y), [0.8, 0.2])", None),
        ("rows, _ = random_split(TensorDataset(x, y), [count, 17])", None),
    ],
)
def test_rows_of_tensors_and_of_parts_are_counted(code: str, expected: int | None) -> None:
    assert rows(code) == expected
