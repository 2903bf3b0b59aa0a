"""Modules of the script's own with single tokens changed: planted mistakes are found, sound models are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from lintrain.evidence.run import CacheEvidence, ResponseEvidence, TokenEvidence
from lintrain.model.verdict import Outcome
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.invariants import cache_evidence, token_evidence
from tests.test_judge_responses import MEASURED, verdict

VOCABULARY, WIDTH, LENGTH, ROWS = 60, 16, 10, 16
RULES = ("unread-tokens", "attended-padding", "missing-positions", "cache-mismatch")


def ids_of(*, padded: bool = True, left: bool = False) -> Any:
    """Int64 [rows, tokens]; 0 stands for padding."""
    torch.manual_seed(0)
    lengths = torch.randint(5, LENGTH, (ROWS, 1)) if padded else torch.full((ROWS, 1), LENGTH)
    lengths[0] = LENGTH
    ids = torch.randint(1, VOCABULARY, (ROWS, LENGTH)) * (torch.arange(LENGTH) < lengths)
    return ids.flip(1) if left else ids


class Text(nn.Module):
    """Token embeddings with positions, a layer of attention and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)

    def embedded(self, ids: Any) -> Any:
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))

    def pooled(self, hidden: Any, ids: Any) -> Any:
        real = (ids != 0)[:, :, None]
        return self.head((hidden * real).sum(dim=1) / real.sum(dim=1))

    def forward(self, ids: Any) -> Any:
        return self.pooled(self.layer(self.embedded(ids), src_key_padding_mask=ids == 0), ids)


class FirstOnly(Text):
    def forward(self, ids: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layer(self.embedded(ids), src_mask=mask)[:, 0])


class Inverted(Text):
    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.embedded(ids), src_key_padding_mask=ids != 0)[:, 0])


class Unmasked(Text):
    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.embedded(ids))[:, 0])


class AddedMask(Text):
    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.embedded(ids), src_key_padding_mask=(ids == 0).float())[:, 0])


class Unordered(Text):
    def embedded(self, ids: Any) -> Any:
        return self.tokens(ids)


class UnorderedTagger(Unordered):
    def forward(self, ids: Any) -> Any:
        return self.head(self.layer(self.embedded(ids), src_key_padding_mask=ids == 0))


class ByHand(Text):
    """Attention written out, with neither positions nor a mask."""

    def forward(self, ids: Any) -> Any:
        hidden = self.tokens(ids)
        mixed = (hidden @ hidden.transpose(1, 2)).softmax(dim=-1) @ hidden
        return self.head(mixed.mean(dim=1))


class ZeroPositions(Text):
    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.positions.weight)


class Gated(Text):
    """What attention finds is added by a gate that starts at 0, and the first token is read."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, ids: Any) -> Any:
        hidden = self.embedded(ids)
        return self.head((hidden + self.gate * self.layer(hidden, src_key_padding_mask=ids == 0))[:, 0])


class ByDistance(Text):
    """Scores lowered by the distance of two tokens, as ALiBi does, and none of absolute positions."""

    def forward(self, ids: Any) -> Any:
        hidden, places = self.tokens(ids), torch.arange(ids.shape[1])
        scores = hidden @ hidden.transpose(1, 2) - (places - places[:, None]).clamp(min=0)
        scores = scores.masked_fill((ids == 0)[:, None], -torch.inf)
        return self.pooled(scores.softmax(dim=-1) @ hidden, ids)


class BagOfWords(Text):
    def forward(self, ids: Any) -> Any:
        return self.pooled(self.tokens(ids), ids)


class Convolution(Text):
    """Global pooling over a convolution: padding is read."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, ids: Any) -> Any:
        return self.head(self.convolution(self.tokens(ids).transpose(1, 2)).relu().amax(dim=2))


class Recurrent(Text):
    """The last state of a packed sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, ids: Any) -> Any:
        lengths = (ids != 0).sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(self.tokens(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.lstm(packed)[1][0][0])


class Tagger(Recurrent):
    """A tagger in one direction."""

    def forward(self, ids: Any) -> Any:
        return self.head(self.lstm(self.tokens(ids))[0])


class Normalized(Text):
    """Batch norm and dropout, in training mode as the script left it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)

    def forward(self, ids: Any) -> Any:
        hidden = self.layer(self.embedded(ids), src_key_padding_mask=ids == 0)[:, 0]
        return self.head(self.dropout(self.norm(hidden)))


class ItemSet(Unordered):
    """Named after a set."""


class Decoder(Text):
    """A causal language model with a cache; its positions go on from there, or start again."""

    def __init__(self, *, goes_on: bool = True) -> None:
        super().__init__()
        self.both, self.head, self.goes_on = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, VOCABULARY), goes_on

    def forward(self, ids: Any, past: Any = None) -> Any:
        start = past.shape[1] if past is not None and self.goes_on else 0
        hidden = self.tokens(ids) + self.positions(start + torch.arange(ids.shape[1]))
        both = self.both(hidden) if past is None else torch.cat([past, self.both(hidden)], dim=1)
        key, value = both.chunk(2, dim=-1)
        seen = torch.ones(key.shape[1], key.shape[1], dtype=torch.bool).tril()[-ids.shape[1] :]
        return self.head(hidden + nn.functional.scaled_dot_product_attention(hidden, key, value, attn_mask=seen)), both


def measured(model: nn.Module, ids: Any) -> tuple[TokenEvidence | None, CacheEvidence | None]:
    """Both measurements."""
    call = Call(model, (ids,), {})
    return token_evidence(call), cache_evidence(call)


def confirmed(model: nn.Module, ids: Any) -> list[str]:
    """The rules that are confirmed on what was measured."""
    tokens, cache = measured(model, ids)
    evidence = replace(MEASURED, responses=ResponseEvidence(tokens=tokens, cache=cache))
    return [rule for rule in RULES if verdict(rule, evidence).outcome is Outcome.CONFIRMED]


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (FirstOnly, "unread-tokens"),
        (Inverted, "unread-tokens"),
        (Unmasked, "attended-padding"),
        (AddedMask, "attended-padding"),
        (Unordered, "missing-positions"),
        (UnorderedTagger, "missing-positions"),
    ],
)
def test_a_planted_mistake_is_the_only_one_that_is_found(model: type[nn.Module], rule: str) -> None:
    assert confirmed(model(), ids_of()) == [rule]


@pytest.mark.parametrize(
    "model",
    [Text, ZeroPositions, Gated, ByDistance, BagOfWords, Convolution, Recurrent, Tagger, Normalized, ItemSet, Decoder],
)
def test_a_sound_model_is_left_alone(model: type[nn.Module]) -> None:
    tokens, _ = measured(model(), ids_of())
    assert tokens is not None
    assert confirmed(model(), ids_of()) == []


def test_attention_that_is_written_out_is_seen_too() -> None:
    assert confirmed(ByHand(), ids_of()) == ["attended-padding", "missing-positions"]


def test_a_mask_of_zeros_and_ones_that_is_added_is_named() -> None:
    tokens, _ = measured(AddedMask(), ids_of())
    assert tokens is not None
    assert tokens.added_mask.startswith("float32 [")


def test_sorted_rows_and_columns_with_ids_of_their_own_are_no_texts() -> None:
    table = torch.stack([torch.randint(6 * column, 6 * column + 6, (ROWS,)) for column in range(LENGTH)], dim=1)
    assert measured(Unordered(), table)[0] is None
    assert measured(Unordered(), ids_of(padded=False).sort(dim=1).values)[0] is None


def test_left_padding_moves_absolute_positions_and_no_distances() -> None:
    absolute, _ = measured(Text(), ids_of(left=True))
    relative, _ = measured(ByDistance(), ids_of(left=True))
    assert absolute is not None
    assert relative is not None
    assert absolute.pads_left
    assert (absolute.by_cut or 0.0) > 1e-3
    assert (relative.by_cut or 0.0) < 1e-5


def test_a_cache_that_forgets_positions_changes_the_output() -> None:
    ids = ids_of(padded=False)
    assert confirmed(Decoder(goes_on=False), ids) == ["cache-mismatch"]
    assert confirmed(Decoder(), ids) == []
    assert measured(Decoder(), ids)[1] is not None


def test_a_model_of_a_library_is_not_measured() -> None:
    assert measured(nn.Sequential(nn.Embedding(VOCABULARY, 4)), ids_of()) == (None, None)


def test_the_model_is_as_it_was_afterwards() -> None:
    model = Gated()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measured(model, ids_of())
    assert model.training
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
