"""Which tokens a language model reads and which it is scored on, as far as the text shows it."""

from __future__ import annotations

import pytest

from lintrain.pipeline.shifts import is_moved_by_one
from tests.support.loops import lines_of

LM = """
from transformers import AutoModelForCausalLM
lm = AutoModelForCausalLM.from_pretrained("gpt2")
"""


@pytest.mark.parametrize(
    ("stretch", "other"),
    [
        (":, :-1", ":, 1:"),
        (":-1", "1:"),
        ("..., :-1", "..., 1:"),
        ("i:i + n", "i + 1:i + n + 1"),
        ("i:i+n", "i+1:i+1+n"),
        ("i:i+n", "1+i:n+i+1"),
        (":, 0:-1", ":, 1:"),
    ],
)
def test_a_stretch_that_starts_one_token_later_is_moved_by_one(stretch: str, other: str) -> None:
    assert is_moved_by_one(stretch, other)
    assert not is_moved_by_one(other, stretch)


@pytest.mark.parametrize(
    ("stretch", "other"),
    [(":, :-1", ":, :-1"), (":, :-2", ":, 2:"), (":, :-1", ":, 2:"), ("0, :-1", "1, 1:"), ("", ""), ("i:j", "k:j")],
)
def test_other_stretches_are_not(stretch: str, other: str) -> None:
    assert not is_moved_by_one(stretch, other)


def test_windows_of_one_array_are_compared_through_functions_and_stacks() -> None:
    code = f"""{LM}
def get_batch(data, size):
    starts = torch.randint(len(data) - size, (4,))
    x = torch.stack([data[i : i + size] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + size] for i in starts])
    return x.to(device), y.to(device)

tokens = torch.load('tokens.pt')
x, y = get_batch(tokens, 32)
loss = lm(x, labels=y).loss
"""
    assert lines_of("double-shift", code) == [12]


def test_labels_that_are_only_given_for_the_logits_are_no_mistake() -> None:
    code = f"{LM}\nlogits = lm(input_ids=ids[:, :-1], labels=ids[:, 1:]).logits\n"
    assert lines_of("double-shift", code) == []


def test_a_batch_that_is_moved_to_a_device_is_still_the_same_tokens() -> None:
    code = f"""{LM}
for batch in loader:
    batch = {{name: value.to(device) for name, value in batch.items()}}
    logits = lm(batch["input_ids"]).logits
    F.cross_entropy(logits.flatten(0, 1), batch["input_ids"].flatten()).backward()
"""
    assert lines_of("missing-shift", code) == [7]


def test_sliced_logits_are_moved() -> None:
    code = f"""{LM}
for batch in loader:
    logits = lm(batch["input_ids"]).logits[:, :-1]
    F.cross_entropy(logits.flatten(0, 1), batch["input_ids"].flatten()).backward()
"""
    assert lines_of("missing-shift", code) == []
