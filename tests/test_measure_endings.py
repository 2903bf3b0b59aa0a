"""Padding that is told by the ends of rows alone, where ids come without a mask."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.libraries
torch = pytest.importorskip("torch")

from lintrain.runtime.measure.replay import mask_by_endings  # noqa: E402 - only with torch


def test_rows_filled_up_with_one_token_have_a_mask() -> None:
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0], [7, 8, 9, 0], [9, 5, 0, 0]])
    assert mask_by_endings(ids).tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0]]


def test_two_equal_tokens_at_the_end_of_one_row_are_chance() -> None:
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 9, 9], [7, 8, 5, 6], [6, 5, 7, 5]])
    assert mask_by_endings(ids) is None
