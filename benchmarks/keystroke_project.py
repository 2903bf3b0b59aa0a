"""The project that keystrokes are measured in: a script of 1,000 lines that trains with two modules of its own."""

from __future__ import annotations

from pathlib import Path

LINES = 1_000

HEAD = '''"""Fine-tunes a classifier with a loop of its own, and compares what it learnt with a Trainer's run."""

import argparse
import logging

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments, get_scheduler

from own_data import collate, encode_splits
from own_model import Classifier, count_parameters

logger = logging.getLogger(__name__)

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", default="distilbert-base-uncased")
parser.add_argument("--rate", type=float, default=5e-5)
options = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
raw = load_dataset("glue", "mrpc")
splits = encode_splits(raw, tokenizer)
loader = DataLoader(splits["train"], batch_size=8, shuffle=True, collate_fn=collate)
model = Classifier(options.checkpoint, 2)
logger.info("%d parameters", count_parameters(model))
'''

BLOCK = '''

def evaluate_{n}(model, loader, device):
    """Accuracy number {n}."""
    model.eval()
    correct, seen = 0, 0
    with torch.no_grad():
        for batch in loader:
            batch = {{name: part.to(device) for name, part in batch.items()}}
            logits = model(batch["input_ids"], batch["attention_mask"])
            answers = logits.argmax(dim=-1)
            correct += (answers == batch["labels"]).sum().item()
            seen += len(batch["labels"])
    model.train()
    return correct / max(seen, 1)


def describe_{n}(splits, tokenizer):
    rows = splits["train"].select(range(100))
    lengths = [len(row["input_ids"]) for row in rows]
    longest = max(lengths)
    if longest > tokenizer.model_max_length:
        logger.warning("%d tokens are too many", longest)
    return {{"mean": sum(lengths) / len(lengths), "longest": longest}}
'''

TAIL = """

def train(model, loader, epochs=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=10, num_training_steps=epochs * len(loader))
    loss_function = torch.nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            logits = model(batch["input_ids"], batch["attention_mask"])
            loss = loss_function(logits, batch["labels"])
            loss.backward()
            optimizer.step()
            scheduler.step()
        logger.info("epoch %d: %.4f", epoch, evaluate_1(model, loader, "cpu"))


train(model, loader)
arguments = TrainingArguments("out", num_train_epochs=3, learning_rate=options.rate)
trainer = Trainer(model.body, arguments, train_dataset=raw["train"], data_collator=DataCollatorWithPadding(tokenizer))
trainer.train()
"""

OWN_MODEL = '''"""The model of the script."""

import torch
from transformers import AutoModel


class Classifier(torch.nn.Module):
    def __init__(self, checkpoint, labels):
        super().__init__()
        self.body = AutoModel.from_pretrained(checkpoint)
        self.dropout = torch.nn.Dropout(0.1)
        self.head = torch.nn.Linear(self.body.config.hidden_size, labels)

    def forward(self, input_ids, attention_mask):
        hidden = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.head(self.dropout(hidden[:, 0]))


def count_parameters(model):
    return sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
'''

OWN_DATA = '''"""The rows of the script."""

import torch


def encode_splits(raw, tokenizer):
    def encode(rows):
        return tokenizer(rows["sentence1"], rows["sentence2"], truncation=True, padding="max_length", max_length=128)

    return raw.map(encode, batched=True)


def collate(rows):
    return {
        "input_ids": torch.tensor([row["input_ids"] for row in rows]),
        "attention_mask": torch.tensor([row["attention_mask"] for row in rows]),
        "labels": torch.tensor([row["label"] for row in rows]),
    }
'''


def script_text(lines: int = LINES) -> str:
    """A script of exactly so many lines; its Trainer is given rows that were never tokenized."""
    blocks: list[str] = []
    room = lines - (HEAD + TAIL).count("\n")
    while room >= BLOCK.count("\n"):
        blocks.append(BLOCK.format(n=len(blocks) + 1))
        room -= BLOCK.count("\n")
    return HEAD + "".join(blocks) + "#\n" * room + TAIL


def write_project(folder: Path) -> Path:
    """Write the script and its modules into a folder; gives the script."""
    (folder / "pyproject.toml").write_text('[project]\nname = "example"\nversion = "0"\n')
    (folder / "own_model.py").write_text(OWN_MODEL)
    (folder / "own_data.py").write_text(OWN_DATA)
    script = folder / "train.py"
    script.write_text(script_text())
    return script
