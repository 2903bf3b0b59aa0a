"""How targets lie beside the tokens that a model reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lintrain.evidence.run import TargetAlignment
from lintrain.runtime.measure.replay import alignment, ids_and_mask

IDS = torch.arange(24).reshape(3, 8)
IGNORED = -100


def aligned(target: Any, mask: Any = None, ids: Any = IDS) -> TargetAlignment:
    found = alignment(target, ids, mask, IGNORED)
    assert found is not None
    return found


def shifted(by: int) -> Any:
    """Targets so many places behind, as long as the ids; those without a token are ignored."""
    target = torch.full_like(IDS, IGNORED)
    target[:, : 8 - by] = IDS[:, by:]
    return target


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_distance_between_targets_and_tokens_is_found(offset: int) -> None:
    found = aligned(shifted(offset))
    assert found.offset == offset
    assert (found.scored, found.ignored) == (3 * (8 - offset), 3 * offset)


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_targets_may_be_cut_and_flat(offset: int) -> None:
    assert aligned(IDS[:, offset:].reshape(-1)).offset == offset


def test_targets_of_another_text_have_no_distance() -> None:
    assert aligned(IDS.flip(1)).offset is None


def test_a_text_of_one_token_has_no_clear_distance() -> None:
    same = torch.ones_like(IDS)
    found = aligned(same, ids=same)
    assert found.equal_at == (1.0, 1.0, 1.0)
    assert found.offset is None


@pytest.mark.parametrize(
    "target", [torch.zeros(3, 8), torch.zeros(5, dtype=torch.int64), torch.zeros(3, 5, dtype=torch.int64), IDS.T]
)
def test_targets_that_do_not_fit_the_ids_are_not_compared(target: Any) -> None:
    assert alignment(target, IDS, None, IGNORED) is None


def test_scored_padding_is_counted_where_the_targets_stand() -> None:
    mask = torch.ones_like(IDS)
    mask[:, 6:] = 0
    assert aligned(shifted(0), mask).padding == 6
    assert aligned(shifted(1), mask).padding == 6  # the padding's last token is no target: the row ends before it
    assert aligned(IDS[:, 2:], mask).padding == 6
    assert aligned(shifted(0)).padding is None


def test_ignored_padding_is_not_counted() -> None:
    mask, target = torch.ones_like(IDS), shifted(1)
    mask[:, 6:] = 0
    target[:, 5:] = IGNORED
    assert aligned(target, mask).padding == 0


def test_nothing_scored_has_no_distance() -> None:
    found = aligned(torch.full_like(IDS, IGNORED))
    assert (found.scored, found.offset) == (0, None)


def test_ids_are_the_first_argument_or_named_and_a_mask_must_fit() -> None:
    mask = torch.ones_like(IDS)
    assert ids_and_mask((IDS,), {}) == (IDS, None)
    found = ids_and_mask((), {"input_ids": IDS, "attention_mask": mask})
    assert found is not None
    assert found[0] is IDS
    assert found[1] is mask
    assert ids_and_mask((IDS,), {"attention_mask": mask[:, :4]}) == (IDS, None)


@pytest.mark.parametrize("given", [(torch.randn(3, 8),), (IDS[0],), ("text",), ()])
def test_what_is_no_table_of_whole_numbers_has_no_ids(given: tuple[Any, ...]) -> None:
    assert ids_and_mask(given, {}) is None
