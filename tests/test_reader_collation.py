"""Batches of the script's own collate functions: what is seen through them, and where they stay unknown."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from tests.support.loops import acts_of, lines_of

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


def test_what_happens_in_a_collate_function_is_no_part_of_the_loops() -> None:
    collate = COPIES.replace("    return", "    optimizer.zero_grad()\n    return")
    loader = "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n"
    epochs = "for epoch in range(3):" + LOOP.replace("\n", "\n    ").replace("    optimizer.zero_grad()\n", "")
    events = acts_of(HEAD + collate + loader + epochs, Act.ZERO_GRAD)
    assert [(event.loops, event.uncalled) for event in events] == [((), True)]


TENSORS = """
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset
class Rows(Dataset):
    def __init__(self):
        self.x = torch.randn(9, 6)
        self.y = torch.randn(9)
    def __getitem__(self, index):
        return self.x[index], self.y[index]
net = nn.Linear(6, 1)
"""
UNZIPPED = """
def collate(rows):
    x, y = zip(*rows)
    return torch.stack(x), torch.stack(y)
"""


@pytest.mark.parametrize(
    ("collate", "loader"),
    [
        ("", "DataLoader(Rows(), batch_size=3)"),
        ("", "DataLoader(TensorDataset(torch.randn(9, 6), torch.randn(9)), batch_size=3)"),
        (UNZIPPED, "DataLoader(Rows(), batch_size=3, collate_fn=collate)"),
        (UNZIPPED, "DataLoader(TensorDataset(torch.randn(9, 6), torch.randn(9)), 3, collate_fn=collate)"),
        (
            "def collate(rows):\n"
            "    return torch.stack([x for x, _ in rows]), torch.tensor([float(y) for _, y in rows])\n",
            "DataLoader(Rows(), batch_size=3, collate_fn=collate)",
        ),
        (
            "def collate(rows):\n"
            '    return {"x": torch.stack([row[0] for row in rows]), "y": torch.stack([row[1] for row in rows])}\n',
            "map(lambda batch: (batch['x'], batch['y']), DataLoader(Rows(), batch_size=3, collate_fn=collate))",
        ),
    ],
)
def test_rows_of_tensors_become_batches_of_known_shape(collate: str, loader: str) -> None:
    code = f"{TENSORS}{collate}\nfor x, y in {loader}:\n    F.mse_loss(net(x), y).backward()\n"
    assert len(lines_of("broadcast-loss", code)) == 1
    assert lines_of("broadcast-loss", code.replace("net(x)", "net(x).squeeze(1)")) == []


@pytest.mark.parametrize(
    "loader",
    [
        "DataLoader(Rows(), batch_size=None)",
        "DataLoader(Rows(), batch_size=3, collate_fn=default)",
        "DataLoader(Rows(), batch_size=3, collate_fn=lambda rows: torch.stack(join(rows)))",
    ],
)
def test_rows_that_become_no_plain_batch_are_left_alone(loader: str) -> None:
    code = f"{TENSORS}\nfor x, y in {loader}:\n    F.mse_loss(net(x), y).backward()\n"
    assert lines_of("broadcast-loss", code) == []


def test_rows_that_are_padded_have_one_axis_more() -> None:
    code = """
from torch.nn.utils.rnn import pad_sequence
ids = pad_sequence([torch.tensor([1, 2]), torch.tensor([3, 4])], batch_first=True)
logits = nn.Linear(8, 5)(nn.Embedding(9, 8)(ids))
F.cross_entropy(logits, ids)
"""
    assert lines_of("class-axis-layout", code) == [4]
    assert lines_of("class-axis-layout", code.replace("8, 5", "8, count")) == [4]
    assert lines_of("class-axis-layout", code.replace("8, 5", "8, count").replace("(logits", "(logits.mT")) == []
    turned = code.replace("8, 5", "8, count").replace("(logits", "(logits.transpose(1, 2)")
    assert lines_of("class-axis-layout", turned) == []


RAGGED = """
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
rows = load_dataset("glue", "sst2", split="train").map(lambda row: tokenizer(row["sentence"]))
def collate(batch):
{body}
for batch in DataLoader(rows, batch_size={size}, collate_fn=collate{more}):
    pass
"""
STACKED = '    return torch.tensor([row["input_ids"] for row in batch])'


def stacked(body: str = STACKED, size: str = "4", more: str = "") -> int:
    return len(lines_of("unpadded-batch", RAGGED.format(body=body, size=size, more=more)))


@pytest.mark.parametrize(
    "body",
    [
        STACKED,
        '    return torch.LongTensor([row["input_ids"] for row in batch])',
        '    return torch.stack([torch.tensor(row["input_ids"]) for row in batch])',
        '    ids = [row["input_ids"] for row in batch]\n    return {"input_ids": torch.tensor(ids)}',
    ],
)
def test_rows_that_differ_in_length_do_not_stack(body: str) -> None:
    assert stacked(body) == 1


@pytest.mark.parametrize(
    "body",
    [
        '    return torch.tensor([row["input_ids"][:8] for row in batch])',
        '    return torch.tensor([pad(row["input_ids"]) for row in batch])',
        '    return torch.tensor([row["input_ids"] + [0] * 9 for row in batch])',
        '    return [torch.tensor(row["input_ids"]) for row in batch]',
        '    return torch.tensor([len(row["input_ids"]) for row in batch])',
        f"    if same(batch):\n    {STACKED}",
        f"    try:\n    {STACKED}\n    except ValueError:\n        return pad(batch)",
    ],
)
def test_rows_that_may_be_equally_long_are_left_alone(body: str) -> None:
    assert stacked(body) == 0


def test_batches_of_one_row_or_of_a_sampler_are_left_alone() -> None:
    assert stacked(size="1") == 0
    assert stacked(size="size") == 0
    assert stacked(more=", sampler=by_length") == 0
