"""Rows that the script makes itself: items of its own `Dataset` classes and lists, and what its collators pass on."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

HEAD = """
from torch.utils.data import DataLoader, Dataset
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments,
)
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("roberta-base")
optimizer = optim.AdamW(model.parameters(), lr=2e-5)
collator = DataCollatorWithPadding(tokenizer)
texts = ["a", "b", "c", "d", "e", "f"]
rows = [{"text": text, "label": number % 3} for number, text in enumerate(texts)]
"""
LAZY = """
class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        row = self.rows[index]
        return {"labels": row["label"], **tokenizer(row["text"])}
"""
FILLED = """
class Rows(Dataset):
    def __init__(self, rows):
        self.items = []
        for row in rows:
            self.items.append({"labels": row["label"], **tokenizer(row["text"])})
    def __len__(self):
        return len(self.items)
    def __getitem__(self, index):
        return self.items[index]
"""
LISTED = """
class Rows(Dataset):
    def __init__(self, rows):
        self.items = [{"labels": row["label"], **tokenizer(row["text"])} for row in rows]
    def __getitem__(self, index):
        return self.items[index]
"""
COLUMNS = """
class Rows(Dataset):
    def __init__(self, rows):
        self.encodings = tokenizer([row["text"] for row in rows])
        self.labels = [row["label"] for row in rows]
    def __getitem__(self, index):
        item = {key: value[index] for key, value in self.encodings.items()}
        item["labels"] = self.labels[index]
        return item
"""
TUPLES = """
class Rows(Dataset):
    def __init__(self, rows):
        self.items = []
        for row in rows:
            encoded = tokenizer(row["text"])
            self.items.append((encoded["input_ids"], encoded["attention_mask"], row["label"]))
    def __getitem__(self, index):
        return self.items[index]
"""
LOOP = """
for epoch in range(3):
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LOADER = "loader = DataLoader(Rows(rows), batch_size=8, shuffle=True, collate_fn=collator)\n"
OWN_COLLATE = """
def collate(items):
    return collator([{"input_ids": ids, "attention_mask": mask, "labels": label} for ids, mask, label in items])
"""
OWN_LOADER = LOADER.replace("=collator", "=collate")


@pytest.mark.parametrize("rows", [LAZY, FILLED, LISTED, COLUMNS])
@pytest.mark.parametrize("rule", ["tokenizer-model-mismatch", "missing-truncation", "missing-num-labels"])
def test_rows_are_known_however_a_dataset_class_makes_them(rule: str, rows: str) -> None:
    assert len(lines_of(rule, HEAD + rows + LOADER + LOOP)) == 1


@pytest.mark.parametrize("rule", ["tokenizer-model-mismatch", "missing-truncation", "missing-num-labels"])
@pytest.mark.parametrize(
    "collate",
    [
        OWN_COLLATE,
        OWN_COLLATE.replace("def collate(items):\n    return", "collate = lambda items:"),
        OWN_COLLATE.replace("collator([", "DataCollatorWithPadding(tokenizer)(["),
    ],
)
def test_rows_are_those_that_a_function_passes_on_to_a_library_collator(rule: str, collate: str) -> None:
    assert len(lines_of(rule, HEAD + TUPLES + collate + OWN_LOADER + LOOP)) == 1


def test_a_collator_inside_a_function_pads_the_batches() -> None:
    unmasked = LOOP.replace("**batch", 'batch["input_ids"], labels=batch["labels"]')
    changed = OWN_COLLATE.replace("return ", "batch = ") + '    batch["labels"] = shift(batch)\n    return batch\n'
    assert len(lines_of("missing-attention-mask", HEAD + TUPLES + OWN_COLLATE + OWN_LOADER + unmasked)) == 1
    assert not lines_of("missing-attention-mask", HEAD + TUPLES + changed + OWN_LOADER + unmasked)


def test_a_trainer_gets_own_rows_that_are_not_tokenized() -> None:
    text = LAZY.replace(', **tokenizer(row["text"])', ', "text": row["text"]')
    trainer = 'Trainer(model, TrainingArguments("out"), data_collator=collator, train_dataset={}).train()\n'
    assert len(lines_of("raw-dataset", HEAD + text + trainer.format("Rows(rows)"))) == 1
    assert len(lines_of("raw-dataset", HEAD + trainer.format("rows"))) == 1
    assert not lines_of("raw-dataset", HEAD + LAZY + trainer.format("Rows(rows)"))
    assert not lines_of("raw-dataset", HEAD + text + trainer.format("Rows(rows)").replace("=collator", "=encode_all"))


def test_columns_of_own_rows_are_removed_by_a_trainer() -> None:
    weighed = LAZY.replace("**tokenizer", '"weight": 1.0, **tokenizer')
    weighs = """
class Weighing(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weight = inputs.pop("weight")
        return model(**inputs).loss * weight.mean()
"""
    made = 'Weighing(model, TrainingArguments("out"), train_dataset=Rows(rows)).train()\n'
    kept = made.replace('"out"', '"out", remove_unused_columns=False')
    assert len(lines_of("removed-columns-needed", HEAD + weighed + weighs + made)) == 1
    assert not lines_of("removed-columns-needed", HEAD + weighed + weighs + kept)


@pytest.mark.parametrize("size", ["", ", num_labels=1", ", num_labels=2", ", num_labels=3", ", num_labels=5"])
def test_literal_labels_show_the_least_number_of_classes(size: str) -> None:
    head = HEAD.replace('("roberta-base")', f'("roberta-base"{size})')
    expected = 1 if size in {"", ", num_labels=2"} else 0
    assert len(lines_of("missing-num-labels", head + LAZY + LOADER + LOOP)) == expected


@pytest.mark.parametrize("labels", ["number % 3 + 1", "float(number % 3)", "number % 3 > 1", "grade(number)"])
def test_other_labels_show_no_classes(labels: str) -> None:
    assert not lines_of("missing-num-labels", HEAD.replace("number % 3", labels) + LAZY + LOADER + LOOP)


def test_a_list_that_unknown_rows_are_put_into_is_not_known() -> None:
    opened = FILLED.replace("    def __len__", "        self.items.extend(read_more())\n    def __len__")
    # Tokenizer and model are of two lines, whatever the rows are: told where the tokenizer is loaded, not at the rows.
    assert lines_of("tokenizer-model-mismatch", HEAD + opened + LOADER + LOOP) == [5]
    assert not lines_of("missing-truncation", HEAD + opened + LOADER + LOOP)


FRAME = """
import pandas as pd
from datasets import Dataset as Rows
frame = pd.DataFrame({"text": texts, "rating": ["bad", "fair", "good", "bad", "fair", "good"]})
frame["label"] = frame["rating"].map({"bad": 0, "fair": 1, "good": 2})
data = Rows.from_pandas(frame)
encoded = data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
Trainer(model, TrainingArguments("out"), train_dataset=encoded, processing_class=tokenizer).train()
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        (', "good": 2}', "}", 0),
        ('"good": 2}', '"good": 2, **more}', 0),
        ("data = Rows.from_pandas(frame)", "data = Rows.from_pandas(frame).filter(is_short)", 0),
        ("(frame)", '(frame[frame["label"] < 2])', 0),
    ],
)
def test_a_dictionary_of_labels_shows_the_classes_of_a_frame(old: str, new: str, count: int) -> None:
    assert len(lines_of("missing-num-labels", HEAD + FRAME.replace(old, new))) == count


def test_parts_of_a_split_have_the_rows_of_the_whole() -> None:
    split = "from torch.utils.data import Subset, random_split\nwhole = Rows(rows)\n"
    parts = split + "first, second = random_split(whole, [4, 2])\n"
    for made, name in ((parts, "first"), (split + "part = Subset(whole, range(4))\n", "part")):
        loader = LOADER.replace("Rows(rows)", name)
        assert len(lines_of("tokenizer-model-mismatch", HEAD + LAZY + made + loader + LOOP)) == 1


def test_a_loader_is_followed_through_accelerate() -> None:
    prepared = (
        "from accelerate import Accelerator\naccelerator = Accelerator()\n"
        + LOADER
        + ("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n")
    )
    loop = LOOP.replace("model(**batch).loss.backward()", "accelerator.backward(model(**batch).loss)")
    assert len(lines_of("tokenizer-model-mismatch", HEAD + FILLED + prepared + loop)) == 1
