"""Files that a script reads are part of what its diagnostics depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_server import Connect, connect, rules, written

__all__ = ["connect"]

FROM_YAML = """import yaml
from transformers import TrainingArguments

with open("settings.yaml") as file:
    settings = yaml.safe_load(file)
args = TrainingArguments("out", fp16=True, bf16=settings["bf16"])
"""
FROM_JSON = (
    FROM_YAML.replace("import yaml", "import json").replace("yaml.safe_load", "json.load").replace("yaml", "json")
)
FROM_CSV = """from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer

rows = load_dataset("csv", data_files="rows.csv", split="train")
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased")
trainer = Trainer(model, train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("code", "name", "before", "after", "found"),
    [
        (FROM_YAML, "settings.yaml", "bf16: false\n", "bf16: true\n", "both-half-precisions"),
        (FROM_JSON, "settings.json", '{"bf16": false}', '{"bf16": true}', "both-half-precisions"),
        (FROM_CSV, "rows.csv", "input_ids,label\n3,0\n", "text,label\ngood,0\n", "raw-dataset"),
    ],
)
def test_a_file_that_changes_has_the_scripts_checked_that_read_it(
    connect: Connect, tmp_path: Path, code: str, name: str, before: str, after: str, found: str
) -> None:
    client = connect()
    settings = written(tmp_path, before, name)
    uri = client.open(written(tmp_path, code))
    assert found not in rules(client.diagnostics(uri))
    settings.write_text(after)
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 2}]})
    assert found in rules(client.diagnostics(uri))


def test_a_file_that_comes_counts_too(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open(written(tmp_path, FROM_YAML))
    assert client.diagnostics(uri) == []
    settings = written(tmp_path, "bf16: true\n", "settings.yaml")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 1}]})
    assert rules(client.diagnostics(uri)) == ["both-half-precisions"]
