"""Batches of the script's own collate functions: what is seen through them, and where they stay unknown."""

from __future__ import annotations

import pytest

from tests.loops import lines_of

HEAD = """
from functools import partial
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
lm = AutoModelForCausalLM.from_pretrained("gpt2")
rows = Dataset.from_dict({"text": ["one", "two three"]})
optimizer = optim.AdamW(lm.parameters())
def encode(texts):
    return tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
"""
LOOP = """
for batch in loader:
    lm(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

COPIES = """
def collate(batch):
    encoded = encode([row["text"] for row in batch])
    encoded["labels"] = encoded["input_ids"].clone()
    return encoded
"""


def padded(collate: str, loader: str, loop: str = LOOP) -> int:
    """How many calls of the model are told of scored padding."""
    return len(lines_of("pad-in-loss", HEAD + collate + loader + loop))


@pytest.mark.parametrize(
    ("collate", "given"),
    [
        (COPIES, "collate"),
        (COPIES, "lambda batch: collate(batch)"),
        (COPIES.replace("(batch)", "(scale, batch)"), "partial(collate, 2)"),
        ("class Pads:\n    def __call__(self, rows):\n        return collate(rows)\n" + COPIES, "Pads()"),
        ("class Pads:\n    def join(self, rows):\n        return collate(rows)\n" + COPIES, "Pads().join"),
        (
            "def collate(batch):\n"
            '    ids = encode([row["text"] for row in batch])["input_ids"]\n'
            '    return {"input_ids": ids, "labels": ids}\n',
            "collate",
        ),
    ],
)
def test_a_batch_holds_what_the_collate_function_gives(collate: str, given: str) -> None:
    assert padded(collate, f"loader = DataLoader(rows, batch_size=4, collate_fn={given})\n") == 1


@pytest.mark.parametrize(
    ("collate", "loader"),
    [
        (COPIES, "loader = DataLoader(rows, collate_fn=collate)\n"),
        (COPIES, "loader = DataLoader(rows, batch_size=None, collate_fn=collate)\n"),
        (COPIES, "loader = DataLoader(rows, batch_size=4, collate_fn=other or collate)\n"),
        (COPIES.replace(".clone()", ".masked_fill(encoded.attention_mask == 0, -100)"), ""),
        (COPIES.replace("    return", '    encoded["labels"][encoded.attention_mask == 0] = -100\n    return'), ""),
        (COPIES.replace("    return", '    encoded["labels"] = mask(encoded)\n    return'), ""),
        (COPIES.replace("    return encoded", "    return finish(encoded)"), ""),
    ],
)
def test_batches_of_one_row_masked_labels_and_unknown_code_are_left_alone(collate: str, loader: str) -> None:
    assert padded(collate, loader or "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n") == 0


def test_a_batch_is_moved_taken_apart_and_changed_like_what_it_holds() -> None:
    loader = "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n"
    moved = LOOP.replace("    lm(**batch)", "    batch = {k: v.to(device) for k, v in batch.items()}\n    lm(**batch)")
    masked = LOOP.replace("    lm(**batch)", '    batch["labels"] = mask(batch)\n    lm(**batch)')
    pair = COPIES.replace("return encoded", 'return encoded["input_ids"], encoded["labels"]')
    taken = LOOP.replace("for batch in", "for ids, labels in").replace("**batch", "input_ids=ids, labels=labels")
    assert padded(COPIES, loader, moved) == 1
    assert padded(COPIES, loader, masked) == 0
    assert padded(pair, loader, taken) == 1


def test_masked_labels_that_are_moved_are_found() -> None:
    collate = COPIES.replace(".clone()", ".masked_fill(encoded.attention_mask == 0, -100)")
    loader = "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n"
    moved = LOOP.replace("**batch", 'input_ids=batch["input_ids"][:, :-1], labels=batch["labels"][:, 1:]')
    assert len(lines_of("double-shift", HEAD + collate + loader + moved)) == 1
    assert not lines_of("double-shift", HEAD + collate + loader + LOOP)


def test_what_happens_in_a_collate_function_is_no_part_of_the_loop() -> None:
    collate = COPIES.replace("    return", "    optimizer.zero_grad()\n    return")
    loader = "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n"
    without = LOOP.replace("    optimizer.zero_grad()\n", "")
    assert len(lines_of("missing-zero-grad", HEAD + COPIES + loader + without)) == 1
    assert not lines_of("missing-zero-grad", HEAD + COPIES + loader + LOOP)
    assert lines_of("missing-zero-grad", HEAD + collate + loader + without)
