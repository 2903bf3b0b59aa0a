"""Losses computed by hand that compare every prediction with every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lintrain.runtime.measure.losses import rows_in_pairs

pytestmark = pytest.mark.libraries


@pytest.mark.parametrize(
    ("loss", "rows"),
    [
        (lambda p, y: ((p - y) ** 2).mean(), 6),
        (lambda p, y: (y - p).abs().sum() / 6 + p.mean(), 6),
        (lambda p, y: torch.sqrt(((p.float() - y) ** 2).mean()), 6),
        (lambda p, y: ((p.squeeze(1) - y) ** 2).mean(), 0),
        (lambda p, y: ((p - y.view(-1, 1)) ** 2).mean(), 0),
        (lambda p, _: ((p - p.T) ** 2).mean(), 0),  # pairs of predictions
        (lambda p, y: torch.relu(1 - (p - y)).mean(), 0),  # a margin between all pairs
        (lambda p, y: torch.exp(-((p - y) ** 2)).mean(), 0),  # a kernel
    ],
)
def test_a_difference_of_a_column_and_a_row_is_seen(loss: Callable[[Any, Any], Any], rows: int) -> None:
    torch.manual_seed(0)
    predictions, targets = torch.nn.Linear(3, 1)(torch.randn(6, 3)), torch.randn(6)
    assert rows_in_pairs(loss(predictions, targets)) == rows


def test_one_row_has_no_pairs() -> None:
    predictions = torch.nn.Linear(3, 1)(torch.randn(1, 3))
    assert rows_in_pairs((predictions - torch.randn(1)).pow(2).mean()) == 0
