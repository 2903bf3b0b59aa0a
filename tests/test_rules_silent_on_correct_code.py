"""Correct code that looks like a mistake: no rule reports it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

TORCH = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randn(16)), batch_size=4, shuffle=True)
"""

HUB = """
import pandas as pd
import torch
from datasets import Dataset, concatenate_datasets, load_dataset
from transformers import (
    AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
    DataCollatorForTokenClassification, DataCollatorWithPadding, Trainer, TrainingArguments,
)
numbers = {"neg": 0, "pos": 1}
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
args = TrainingArguments("out")
def tokenize(rows):
    return tokenizer(rows["text"], truncation=True)
frame = pd.DataFrame({"text": ["a", "b"], "label": ["neg", "pos"]})
"""

FRAMES = """
rows = Dataset.from_pandas(frame).map(tokenize, batched=True)
Trainer(model, args, train_dataset=rows, processing_class=tokenizer).train()
"""


def rules_that_speak(code: str) -> list[str]:
    pipeline = read_pipeline(Source("train.py", dedent(code)), TargetVersions())
    return [finding.rule for each in load_rules() for finding in each.rule.check(pipeline)]


def in_loop(body: str) -> str:
    lines = "\n    ".join(dedent(body).strip().splitlines())
    return f"{TORCH}for x, y in loader:\n    optimizer.zero_grad()\n    {lines}\n"


@pytest.mark.parametrize(
    "code",
    [
        in_loop("y.unsqueeze_(1)\nF.mse_loss(net(x), y).backward()\noptimizer.step()"),
        in_loop(
            "whole = torch.randint(0, 2, (4, 1))\nscores = net(x)\n"
            "F.binary_cross_entropy_with_logits(scores, whole.to(scores.dtype)).backward()\noptimizer.step()"
        ),
        in_loop(
            "F.mse_loss(net(x), y[:, None]).backward()\noptimizer.step()\n"
            "print(nn.utils.clip_grad_norm_(net.parameters(), float('inf')))"
        ),
        "total = 0.0\n"
        + in_loop(
            "loss = F.mse_loss(net(x), y[:, None])\nloss.backward()\noptimizer.step()\nloss.detach_()\ntotal += loss"
        ),
    ],
    ids=["reshaped in place", "converted to another tensor's type", "gradients are measured", "detached in place"],
)
def test_tensors_that_are_changed_in_less_usual_ways(code: str) -> None:
    assert rules_that_speak(code) == []


def test_a_shared_weight_is_no_new_part() -> None:
    code = """
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

            def forward(self, x):
                return self.last(F.relu(self.first(x)))

        tied = Tied()
        optimizer = torch.optim.Adam(tied.parameters())
        tied.last.weight = tied.first.weight
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(tied(x), x).backward()
            optimizer.step()
    """
    assert rules_that_speak(TORCH + dedent(code)) == []


def test_a_flag_that_one_of_several_things_keeps_ends_no_rule() -> None:
    code = "def f(unknown):\n    unknown.requires_grad = False\n    net.requires_grad = False\n"
    assert rules_that_speak(TORCH + code) == ["ineffective-freeze"]


@pytest.mark.parametrize(
    "change",
    [
        'frame["label"] = frame["label"].map(numbers)',
        'frame.label = frame["label"].astype("category").cat.codes',
        'frame.loc[:, "label"] = pd.factorize(frame["label"])[0]',
        'frame.replace({"label": numbers}, inplace=True)',
        "clean(frame)",
    ],
)
def test_a_frame_that_is_changed_has_columns_of_unknown_kinds(change: str) -> None:
    assert rules_that_speak(f"{HUB}{FRAMES}") == ["string-labels"]
    found = rules_that_speak(f"{HUB}def clean(frame):\n    frame['label'] = 0\n{change}\n{FRAMES}")
    assert found == []


def test_a_frame_that_an_object_keeps_may_be_changed_by_its_methods() -> None:
    code = """
        class Table:
            def __init__(self):
                self.frame = pd.DataFrame({"text": ["a", "b"], "label": ["neg", "pos"]})
                self.frame["label"] = self.frame["label"].map(numbers)
        rows = Dataset.from_pandas(Table().frame).map(tokenize, batched=True)
        Trainer(model, args, train_dataset=rows, processing_class=tokenizer).train()
    """
    assert rules_that_speak(HUB + dedent(code)) == []


def test_a_part_that_is_joined_with_others_may_hold_every_class() -> None:
    code = """
        reviews = load_dataset("imdb", split="train")
        both = concatenate_datasets([reviews.select(range(100)), reviews.select(range(24000, 24100))]).shuffle(seed=1)
        Trainer(model, args, train_dataset=both.map(tokenize, batched=True), processing_class=tokenizer).train()
    """
    assert rules_that_speak(HUB + dedent(code)) == []


def test_ignored_entries_may_weigh_nothing() -> None:
    code = """
        from sklearn.metrics import accuracy_score
        tagger = AutoModelForTokenClassification.from_pretrained("bert-base-uncased", num_labels=9)
        def compute_metrics(p):
            classes, labels = p.predictions.argmax(-1).flatten(), p.label_ids.flatten()
            return {"accuracy": accuracy_score(labels, classesWEIGHTS)}
        data = load_dataset("tagged").map(lambda row: tokenizer(row["tokens"], truncation=True))
        collator = DataCollatorForTokenClassification(tokenizer)
        Trainer(
            tagger, args, collator, data["train"], data["test"], compute_metrics=compute_metrics
        ).train()
    """
    told = HUB + dedent(code)
    assert rules_that_speak(told.replace("WEIGHTS", "")) == ["ignored-index-in-metric"]
    assert rules_that_speak(told.replace("WEIGHTS", ", sample_weight=labels != -100")) == []


def test_an_embedding_that_is_set_by_hand_may_have_rows_for_new_tokens() -> None:
    code = """
        tokenizer.add_tokens(["<entity>"])
        model.set_input_embeddings(torch.nn.Embedding(len(tokenizer), 768))
        rows = load_dataset("imdb", split="train").map(tokenize, batched=True)
        Trainer(model, args, train_dataset=rows, processing_class=tokenizer).train()
    """
    assert rules_that_speak(HUB + dedent(code)) == []


@pytest.mark.parametrize(
    "taken",
    ['text = text.replace(chat.bos_token, "")', "text = text[3:] if text.startswith(chat.bos_token) else text"],
)
def test_a_begin_of_text_token_may_be_taken_off_again(taken: str) -> None:
    code = f"""
        chat = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-chat-hf")
        def render(row):
            text = chat.apply_chat_template(row["messages"], tokenize=False)
            {taken}
            return chat(text, truncation=True)
        rows = load_dataset("json", data_files="a.json").map(render)
    """
    assert rules_that_speak(HUB + dedent(code)) == []
    assert rules_that_speak(HUB + dedent(code).replace(taken, "pass")) == ["double-bos"]
