"""Scripts that need the hub, a GPU and packages that are not here, probed with `--stand-ins`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import Probed, path_for_lintrain, probe
from tools.build_fixtures import offline_environment

# Cold starts: the libraries are replaced as the script imports them.
pytestmark = pytest.mark.slow

CLASSIFIER = """
import evaluate
import numpy as np
import torch
import bitsandbytes
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding
from transformers import BitsAndBytesConfig, Trainer, TrainingArguments

assert torch.cuda.is_available()
torch.cuda.set_device(0)
raw = load_dataset("glue", "mrpc")
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
encoded = raw.map(lambda row: tokenizer(row["sentence1"], row["sentence2"], truncation=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained(
    "bert-base-uncased", device_map="auto", quantization_config=BitsAndBytesConfig(load_in_4bit=True)
).cuda()
print(torch.zeros(2, device="cuda").device, torch.ones(1).to("cuda:0").device)
accuracy = evaluate.load("accuracy")


def compute_metrics(prediction):
    return accuracy.compute(predictions=np.argmax(prediction.predictions, -1), references=prediction.label_ids)


settings = TrainingArguments("out", fp16=True, optim="paged_adamw_8bit", eval_strategy="epoch")
Trainer(
    model,
    settings,
    train_dataset=encoded["train"],
    eval_dataset=encoded["validation"],
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=compute_metrics,
).train()
"""

CHAT = """
import json

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("somebody/Qwen2.5-7B-Instruct-mine")
rows = [row["question"] + row["answer"] for row in json.load(open("rows.json"))]
for row in load_dataset("somebody/conversations", split="train[:16]"):
    assert row["messages"][0]["role"] == "user"
    rows.append(tokenizer.apply_chat_template(row["messages"], tokenize=False))
name = "somebody/Qwen2.5-7B-Instruct-mine"
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="flash_attention_2")
device = torch.device("cuda")
model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(rows, batch_size=4):
    encoded = tokenizer(batch, return_tensors="pt", padding=True).to(device)
    loss = model(**encoded, labels=encoded["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Probed:
    empty = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patched:
        path_for_lintrain(patched)
        for name, value in offline_environment().items():
            if Path(value).is_dir():  # not the data set and the metric that the tests have there
                patched.setenv(name, str(empty))
        return probe(tmp_path_factory.mktemp("classifier"), CLASSIFIER, "--stand-ins")


def replaced(probed: Probed) -> dict[str, str]:
    return {each["name"]: each["by"] for each in probed.run["stand_ins"]}


def test_every_stage_runs(classifier: Probed) -> None:
    assert classifier.code == 0
    assert [name for name, status in classifier.stages.items() if status != "passed"] == []


def test_what_was_replaced_is_listed(classifier: Probed) -> None:
    found = replaced(classifier)
    assert found["bert-base-uncased"] == "BertForMaskedLM, 2 layers, random weights"
    assert found["glue, mrpc"].startswith("rows with the columns known: sentence1, sentence2, label, idx (train 3668")
    assert found["cuda"] == "the CPU"
    assert found["optim=paged_adamw_8bit"] == "adamw_torch"
    assert {"fp16=True", "accuracy", "bitsandbytes", "quantization_config=BitsAndBytesConfig"} <= set(found)


def test_class_and_names_of_labels_are_those_of_the_hub(classifier: Probed) -> None:
    assert classifier.run["model"]["name"] == "BertForSequenceClassification"
    label = next(column for column in classifier.run["splits"][0]["columns"] if column["name"] == "label")
    assert label["names"] == ["not_equivalent", "equivalent"]


def test_a_loop_with_chats_and_a_missing_file_takes_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, CHAT, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["somebody/Qwen2.5-7B-Instruct-mine"] == "Qwen2ForCausalLM, 2 layers, random weights"
    assert "messages" in found["somebody/conversations"]
    assert "question, answer" in found["rows.json"]
    assert not (tmp_path / "rows.json").exists()


def test_without_the_option_nothing_is_replaced_and_it_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, CHAT.replace("import json", ""), "--offline")
    assert probed.code == 3
    assert probed.run["stand_ins"] == []
    assert probed.document["reason"].endswith("`--stand-ins` replaces what is not here")
