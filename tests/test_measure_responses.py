"""A model asked again: what moves its answers, and that it is afterwards as it was before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lintrain.evidence.run import FutureEvidence, MaskEvidence, ResponseEvidence
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.replay import ask
from lintrain.runtime.measure.responses import Responses, Tokens
from lintrain.runtime.measure.seen import LossCall
from tests.support.recorded import RecordedRun

ROWS, WORDS, WIDTH = 6, 11, 16
SURE, ROUNDING = 1e-2, 1e-5


class Reader(nn.Module):
    """Scores for the next token, from what attention gives each token to see."""

    def __init__(self, *, causal: bool = True, prefix: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)
        self.causal, self.prefix = causal, prefix

    def forward(self, ids: Any, *others: Any) -> Any:
        hidden = self.embedding(ids)
        sees = torch.ones(ids.shape[1], ids.shape[1]).tril() if self.causal else torch.ones(ids.shape[1], ids.shape[1])
        sees[: self.prefix, : self.prefix] = 1.0
        return self.head(sees / sees.sum(dim=1, keepdim=True) @ hidden)


class Encoder(nn.Module):
    """Scores for whole rows: the mean of the tokens that count."""

    def __init__(self, counts: str) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 3)
        self.counts = counts

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        every = torch.ones_like(input_ids)
        used = {"mask": attention_mask, "ids": (input_ids != 0).long(), "all": every}[self.counts]
        used = (every if used is None else used).unsqueeze(-1)
        return {"logits": self.head((self.embedding(input_ids) * used).sum(dim=1) / used.sum(dim=1))}


def asked(
    call: Call, *, loss: LossCall | None = None, doubt: str = "", batch: dict[str, Any] | None = None
) -> ResponseEvidence:
    """What the questions about one call give."""
    run = RecordedRun(call.module)
    run.batches = [batch or {}]
    Responses(run, call, Tokens(loss, doubt) if loss else None).measure()
    evidence: ResponseEvidence = run.evidence["responses"]
    assert not evidence.reason
    return evidence


def future_of(model: nn.Module, *others: Any, ignored: int = 0, shift: int = 1) -> FutureEvidence | None:
    """How a language model answers when its next tokens are changed; some first targets may be left out."""
    torch.manual_seed(0)
    ids = torch.randint(1, WORDS, (ROWS, 9))
    target = torch.full_like(ids, -100)
    target[:, : ids.shape[1] - shift] = ids[:, shift:]
    target[:, :ignored] = -100
    return asked(Call(model, (ids, *others), {}), loss=LossCall("cross_entropy", None, target, {})).future


def mask_of(model: nn.Module, *, given: bool = True, left: bool = False) -> MaskEvidence | None:
    """How a model answers when padding is attended, and when it is cut off."""
    torch.manual_seed(0)
    lengths = torch.tensor([9, 4, 7, 9, 2, 8])
    mask = (torch.arange(9) < lengths[:, None]).long()
    mask = mask.flip(1) if left else mask
    ids = torch.randint(1, WORDS, (ROWS, 9)) * mask
    batch = {"attention_mask": mask}
    return asked(Call(model, (), {"input_ids": ids, **(batch if given else {})}), batch=batch).mask


def test_a_causal_model_does_not_move_with_later_tokens() -> None:
    future = future_of(Reader())
    assert future is not None
    assert (future.positions, future.equal_to_next, future.doubt) == (ROWS, 1.0, "")
    assert future.change < ROUNDING


def test_a_model_that_reads_in_both_directions_moves_with_later_tokens() -> None:
    future = future_of(Reader(causal=False))
    assert future is not None
    assert future.change > SURE


def test_a_prefix_that_is_not_scored_may_be_read_in_both_directions() -> None:
    future = future_of(Reader(prefix=4), ignored=3)
    assert future is not None
    assert future.change < ROUNDING


def test_a_scored_prefix_gives_its_answers_away() -> None:
    future = future_of(Reader(prefix=9))
    assert future is not None
    assert future.change > SURE


@pytest.mark.parametrize("shift", [0, 2])
def test_targets_at_another_distance_are_not_looked_at(shift: int) -> None:
    assert future_of(Reader(causal=False), shift=shift) is None


def test_a_second_text_leaves_a_doubt_and_a_mask_none() -> None:
    other = torch.randint(1, WORDS, (ROWS, 9))
    read, masked = future_of(Reader(causal=False), other), future_of(Reader(causal=False), torch.ones_like(other))
    assert read is not None
    assert masked is not None
    assert read.doubt == "the model reads `others` as well"
    assert masked.doubt == ""


def test_an_encoder_beside_a_decoder_leaves_a_doubt_but_not_an_embedding_of_that_name() -> None:
    whole, plain = Reader(causal=False), Reader(causal=False)
    whole.encoder, whole.decoder = nn.GRU(WIDTH, WIDTH), nn.GRU(WIDTH, WIDTH)
    plain.encoder, plain.decoder = nn.Embedding(2, 2), nn.Linear(2, 2)
    found = future_of(whole), future_of(plain)
    assert [each.doubt if each else None for each in found] == ["the model also has an encoder", ""]


def test_a_mask_that_is_used_changes_answers_and_cutting_padding_does_not() -> None:
    mask = mask_of(Encoder("mask"))
    assert mask is not None
    assert (mask.given, mask.rows, mask.padding, mask.cut_tokens) == (True, 4, 15, 7)
    assert mask.change > SURE
    assert mask.cut is not None
    assert mask.cut < ROUNDING


def test_a_mask_that_is_ignored_changes_nothing_and_cutting_padding_does() -> None:
    mask = mask_of(Encoder("all"))
    assert mask is not None
    assert mask.change == 0.0
    assert mask.cut is not None
    assert mask.cut > SURE


def test_a_model_that_finds_padding_by_its_token_needs_no_mask() -> None:
    mask = mask_of(Encoder("ids"))
    assert mask is not None
    assert mask.change == 0.0
    assert mask.cut is not None
    assert mask.cut < ROUNDING


def test_padding_on_the_left_is_not_cut_off() -> None:
    mask = mask_of(Encoder("mask"), left=True)
    assert mask is not None
    assert mask.change > SURE
    assert mask.cut is None


def test_a_mask_that_the_model_does_not_get_is_taken_from_the_batch() -> None:
    mask = mask_of(Encoder("mask"), given=False)
    assert mask is not None
    assert not mask.given
    assert mask.change > SURE


def test_rows_without_padding_say_nothing_of_the_mask() -> None:
    ids = torch.randint(1, WORDS, (ROWS, 9))
    call = Call(Encoder("mask"), (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert asked(call).mask is None


@pytest.mark.parametrize(("dead", "after"), [(True, 0.0), (False, None)])
def test_a_head_of_zeros_is_told_from_dead_units_by_its_steps(dead: bool, after: float | None) -> None:
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    nn.init.zeros_(model[2].weight)
    if dead:
        nn.init.constant_(model[0].bias, -100.0)
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    run = RecordedRun(model)
    responses = Responses(run, Call(model, (x,), {}), None)
    responses.measure()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss: Any = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    responses.after_steps()
    spread = run.evidence["responses"].spread
    assert (spread.rows, spread.before) == (5, 0.0)
    assert spread.after == 0.0 if after == 0.0 else spread.after > SURE


def test_equal_rows_say_nothing_of_the_answers() -> None:
    model = nn.Linear(4, 3)
    assert asked(Call(model, (torch.ones(5, 4),), {})).spread is None


class Stateful(nn.Module):
    """Counts its calls, keeps its last state, draws at random, and writes into a list and a buffer."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.register_buffer("steps", torch.zeros(1))
        self.calls, self.seen, self.state = 0, list[int](), torch.zeros(1)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.seen.append(self.calls)
        self.steps += 1
        self.state = self.layers(x)
        return self.state + torch.randn(1)


def test_everything_is_afterwards_as_it_was_before() -> None:
    model, x = Stateful(), torch.randn(5, 4)
    model.layers[0].eval()
    state = model.state
    before = {name: value.clone() for name, value in model.state_dict().items()}
    numbers, modes = torch.get_rng_state(), [part.training for part in model.modules()]
    first, again = ask(Call(model, (x,), {})), ask(Call(model, (x,), {}))
    assert torch.equal(first[0], again[0])
    assert torch.equal(torch.get_rng_state(), numbers)
    assert [part.training for part in model.modules()] == modes
    assert (model.calls, model.seen) == (0, [])
    assert model.state is state
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_pass_in_between_does_not_disturb_a_backward_pass_that_waits() -> None:
    model, x = Stateful(), torch.randn(5, 4)
    loss = model(x).sum()
    ask(Call(model, (x,), {}))
    loss.backward()
    assert model.layers[0].weight.grad is not None


def test_a_model_that_writes_into_its_batch_finds_it_as_it_was() -> None:
    class Writes(nn.Module):
        def forward(self, features: dict[str, Any]) -> Any:
            features["out"] = features["x"] * 2
            return features

    features = {"x": torch.randn(3, 2)}
    (answer,) = ask(Call(Writes(), (features,), {}))
    assert set(features) == {"x"}
    assert torch.equal(answer, features["x"] * 2)


def test_a_model_that_cannot_be_asked_again_is_no_fault() -> None:
    class Once(nn.Module):
        def forward(self, x: Any) -> Any:
            raise RuntimeError("only in the loop")

    run = RecordedRun(Once())
    Responses(run, Call(Once(), (torch.randn(3, 2),), {}), None).measure()
    assert run.evidence["responses"].reason == "the model cannot be called again: RuntimeError: only in the loop"
