"""Ids that come to a pretrained encoder inside a module of the script: whose they are, and where nobody can know."""

from __future__ import annotations

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

SCRIPT = """\
import torch
from datasets import load_dataset
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
opinions = load_dataset("glue", "sst2", split="train")
class Classifier(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        self.backbone = AutoModel.from_pretrained(checkpoint)
        self.head = nn.Linear(self.backbone.config.hidden_size, 2)
        # changes
    def forward(self, input_ids):
        return self.head(self.backbone(input_ids=input_ids).last_hidden_state[:, 0])
def collate(rows):
    encoded = tokenizer([row["sentence"] for row in rows], padding=True, return_tensors="pt")
    return encoded["input_ids"], torch.tensor([row["label"] for row in rows])
loader = DataLoader(opinions, batch_size=8, collate_fn=collate)
model = Classifier("roberta-base")
for input_ids, labels in loader:
    model(input_ids)
"""
LOADER = 19


def lines(script: str) -> list[int]:
    rule = next(each.rule for each in load_rules() if each.name == "tokenizer-model-mismatch")
    pipeline = read_pipeline(Source("script.py", script), TargetVersions())
    return [finding.location.line for finding in rule.check(pipeline)]


def test_ids_of_another_tokenizer_are_told_at_the_loader_that_gives_them() -> None:
    assert lines(SCRIPT) == [LOADER]


def test_a_call_without_a_loader_is_told_itself() -> None:
    call = 'model(tokenizer(["good"], return_tensors="pt")["input_ids"])\n'
    assert lines(SCRIPT.partition("def collate")[0] + 'model = Classifier("roberta-base")\n' + call) == [15]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('Classifier("roberta-base")', 'Classifier("bert-base-uncased")'),
        ('Classifier("roberta-base")', 'Classifier("distilbert-base-uncased")'),
        ('Classifier("roberta-base")', 'Classifier("./mine")'),
        ("# changes", "self.backbone.resize_token_embeddings(30522)"),
        ("# changes", "self.backbone.embeddings.word_embeddings = nn.Embedding(30522, 768)"),
        ("AutoModel.from_pretrained(checkpoint)", "AutoModel.from_pretrained(checkpoint, config=own)"),
        ("AutoModel.from_pretrained(checkpoint)", "AutoModel.from_config(AutoConfig.from_pretrained(checkpoint))"),
        ("self.backbone(input_ids=input_ids)", "self.backbone(input_ids=own(input_ids))"),
    ],
)
def test_a_model_that_may_have_the_words_of_the_tokenizer_is_left_alone(old: str, new: str) -> None:
    assert lines(SCRIPT.replace(old, new)) == []
