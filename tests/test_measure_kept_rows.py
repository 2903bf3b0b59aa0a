"""What a collator keeps of its rows, and a tokenizer of texts: each mistake beside correct code that is near it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from lintrain.evidence.run import CollatedRows, EncodedTexts
from lintrain.model.location import Location
from lintrain.runtime.measure.collation import Collations
from lintrain.runtime.measure.encodings import Encodings, measure_encodings

HERE = Location("train.py", 1, 1, 1, 2)
LABELS = (0, 2, 1, 1, 0, 2, 2, 0, 1, 0, 1, 2)
ROWS = [{"input_ids": [*range(10 * n + 1, 10 * n + 5 + n % 4)], "label": label} for n, label in enumerate(LABELS)]
Row = dict[str, Any]


def padded(rows: list[Row]) -> Row:
    """Rows as a batch, padded with 0 on the right."""
    longest = max(len(row["input_ids"]) for row in rows)
    ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor([row["label"] for row in rows])}


def compared(collate: Callable[[list[Any]], Any], rows: list[Any] | None = None) -> CollatedRows:
    """What is counted of one batch."""
    collations = Collations(SimpleNamespace(tokenizers={}))  # type: ignore[arg-type] # all that is read of a session
    collations.collating(ROWS, collate)([*(rows or ROWS)])
    found = collations.latest()
    assert found is not None
    return found


def test_reversed_labels_are_those_of_other_rows() -> None:
    found = compared(lambda rows: {**padded(rows), "labels": padded(rows)["labels"].flip(0)})
    assert (found.matched, found.are_swapped) == (12, True)
    assert found.relabelled == sum(one != other for one, other in zip(LABELS, reversed(LABELS), strict=True))


@pytest.mark.parametrize(
    "collate",
    [
        padded,
        lambda rows: padded(rows[::-1]),
        lambda rows: padded(sorted(rows, key=lambda row: len(row["input_ids"]))),
        lambda rows: {**padded(rows), "labels": torch.tensor([2, 0, 1])[padded(rows)["labels"]]},
    ],
    ids=["in order", "reversed together", "sorted together", "other numbers for labels"],
)
def test_rows_that_keep_their_labels_are_not_swapped(collate: Callable[[list[Row]], Row]) -> None:
    found = compared(collate)
    assert (found.matched, found.relabelled, found.lost) == (12, 0, 0)


def test_labels_with_noise_are_not_those_of_other_rows() -> None:
    noisy = torch.tensor([1, *(row["label"] for row in ROWS[1:])])
    found = compared(lambda rows: {**padded(rows), "labels": noisy})
    assert (found.relabelled, found.are_swapped) == (1, False)


def test_rows_of_plain_tensors_are_known_again() -> None:
    pairs = [(torch.randn(8), label) for label in LABELS]

    def collate(rows: list[Any]) -> Any:
        return torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in reversed(rows)])

    assert compared(collate, pairs).are_swapped


@pytest.mark.parametrize(("cut", "side"), [(slice(None, 4), "right"), (slice(-4, None), "left")])
def test_dropped_tokens_are_counted_with_their_side(cut: slice, side: str) -> None:
    found = compared(lambda rows: padded([{**row, "input_ids": row["input_ids"][cut]} for row in rows]))
    assert (found.cut, found.lost, found.side) == (9, 3 * (1 + 2 + 3), side)


def test_masked_tokens_are_not_dropped() -> None:
    def masked(rows: list[Row]) -> Row:
        batch = padded(rows)
        return {**batch, "input_ids": batch["input_ids"].masked_fill(batch["input_ids"] % 3 == 0, 103)}

    assert compared(masked).lost == 0


def test_equal_rows_with_other_labels_conflict() -> None:
    same = [{"input_ids": [5, 6, 7], "label": row % 2} for row in range(6)]
    found = compared(padded, same)
    assert (found.alike, found.conflicting, found.matched) == (6, 6, 0)


def test_labels_of_tokens_at_other_tokens_are_counted() -> None:
    rows = [{"input_ids": [7, 8, 9 + row], "attention_mask": [1, 1, 1], "labels": [-100, 1, 2]} for row in range(4)]

    def collate(rows: list[Row]) -> Row:
        left = {name: torch.tensor([[0, *row[name]] for row in rows]) for name in ("input_ids", "attention_mask")}
        return {**left, "labels": torch.tensor([[*row["labels"], -100] for row in rows])}

    assert compared(collate, rows).misplaced == 4


def test_a_collator_of_another_kind_is_left_alone() -> None:
    collations = Collations(SimpleNamespace(tokenizers={}))  # type: ignore[arg-type] # as above
    assert collations.collating(ROWS, lambda rows: object())(ROWS) is not None
    assert collations.latest() is None


def encoded(texts: list[str], *args: Any, name: str = "bert-base-uncased", **options: Any) -> EncodedTexts:
    """What is measured of one call of a tokenizer."""
    tokenizer, sent = AutoTokenizer.from_pretrained(name), dict[str, Any]()
    encodings = Encodings()
    encodings.add(tokenizer, HERE, (texts, *args), options)
    run = SimpleNamespace(
        session=SimpleNamespace(origins=SimpleNamespace(texts=encodings)), batches=[], measured=sent.update
    )
    tokenizer(texts, *args, **options)
    before = tokenizer.backend_tokenizer.truncation
    measure_encodings(run, tokenizer)  # type: ignore[arg-type] # all that is read of a run
    assert tokenizer.backend_tokenizer.truncation == before
    (found,) = sent["encodings"]
    assert isinstance(found, EncodedTexts)
    return found


@pytest.mark.usefixtures("assets")
def test_truncation_is_measured_by_encoding_again() -> None:
    texts = ["a cat is not a dog"] * 4
    found = encoded(texts, truncation=True, max_length=5)
    assert (found.texts, found.cut, found.limit, found.side) == (4, 4, 5, "right")
    assert found.lost == found.tokens - 20
    assert encoded(texts, truncation=True, max_length=50).cut == 0
    assert encoded(texts, truncation=True, max_length=5, return_overflowing_tokens=True).cut == 0
    assert encoded(texts, ["a dog"] * 4, truncation="only_second", max_length=50).second_lost == 0


@pytest.mark.usefixtures("assets")
def test_a_second_text_that_is_cut_off_is_counted() -> None:
    found = encoded(["a cat is not a cat"] * 4, ["a dog"] * 4, truncation="longest_first", max_length=30)
    assert (found.pairs, found.second_lost) == (4, 0)


@pytest.mark.usefixtures("assets")
def test_what_does_not_come_back_is_counted() -> None:
    found = encoded(["A cat\n  is"])
    assert (found.with_capitals, found.lost_capitals) == (1, 1)
    assert (found.with_newlines, found.lost_newlines) == (1, 1)
    whole = encoded(["A caf\u00e9\n    is"], name="gpt2")
    assert (whole.lost_capitals, whole.lost_accents, whole.lost_newlines, whole.lost_spaces) == (0, 0, 0, 0)
    assert (whole.with_capitals, whole.with_accents, whole.with_newlines, whole.with_spaces) == (1, 1, 1, 1)
