"""Scripts that need the hub, a GPU and packages that are not here, probed with `--stand-ins`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import WARM_PYTHON, Probed, path_for_lintrain, probe
from tools.build_fixtures import offline_environment

# The classifier and the chats start cold: there libraries are replaced as the script imports them.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

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
print(torch.zeros(2, device="cuda").device, torch.ones(1).to("cuda:0").device, torch.ones(1).to(0).device)
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


@pytest.mark.turns(one_in=1)
def test_every_stage_runs(classifier: Probed) -> None:
    assert classifier.code == 0
    assert [name for name, status in classifier.stages.items() if status != "passed"] == []


@pytest.mark.turns(one_in=1)
def test_what_was_replaced_is_listed(classifier: Probed) -> None:
    found = replaced(classifier)
    assert found["bert-base-uncased"] == "BertForSequenceClassification, 2 layers, random weights"
    assert found["glue, mrpc"].startswith("rows with the columns known: sentence1, sentence2, label, idx (train 3668")
    assert found["cuda"] == "the CPU"
    assert found["optim=paged_adamw_8bit"] == "adamw_torch"
    assert {"fp16=True", "accuracy", "bitsandbytes", "quantization_config=BitsAndBytesConfig"} <= set(found)


@pytest.mark.turns(one_in=1)
def test_class_and_names_of_labels_are_those_of_the_hub(classifier: Probed) -> None:
    assert classifier.run["model"]["name"] == "BertForSequenceClassification"
    label = next(column for column in classifier.run["splits"][0]["columns"] if column["name"] == "label")
    assert label["names"] == ["not_equivalent", "equivalent"]


def test_a_loop_with_chats_and_a_missing_file_takes_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.delenv(WARM_PYTHON)
    probed = probe(tmp_path, CHAT, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["somebody/Qwen2.5-7B-Instruct-mine"] == "Qwen2ForCausalLM, 2 layers, random weights"
    assert "messages" in found["somebody/conversations"]
    assert "question, answer" in found["rows.json"]
    assert not (tmp_path / "rows.json").exists()


UNKNOWN = """
import json
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader

rows = load_dataset("somebody/judged", split="train")
GRADES = {"bad": 0, "good": 1}
TITLE = "title"

def encode(entry_of_file):
    about = json.loads(entry_of_file["about"])
    length = len(entry_of_file["text"].split("=>")[1]) / 100
    return {"y": GRADES[entry_of_file["grade"]], "x": [length, float(len(about[TITLE]))]}

loader = DataLoader(rows.map(encode).select_columns(["x", "y"]).with_format("torch"), batch_size=4, shuffle=True)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_rows_that_were_made_wrongly_are_corrected_until_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, UNKNOWN, "--stand-ins")
    assert probed.stages["step"] == "passed"
    assert len(probed.document["probe"]["runs"]) == 1
    found = {name: by for name, by in replaced(probed).items() if name.startswith("somebody/judged, ")}
    assert found == {
        "somebody/judged, about": "JSON with title, after KeyError: 'title'",
        "somebody/judged, grade": found["somebody/judged, grade"],
        "somebody/judged, text": "texts that contain =>, after IndexError: list index out of range",
    }
    assert found["somebody/judged, grade"].startswith("one of bad, good, after KeyError: ")


def test_what_a_script_asks_of_its_own_values_is_not_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, UNKNOWN.replace("about[TITLE]", 'GRADES["fair"]'), "--stand-ins")
    assert probed.code == 3
    assert probed.run["stages"][0]["failure"]["message"] == "'fair'"


UNTRAINED = """
import torch
from datasets import load_dataset

for row in load_dataset("somebody/judged", split="train"):
    length = len(row["text"].split("=>")[1])
"""


def test_a_corrected_run_that_trains_nothing_does_not_show_the_error_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, UNTRAINED, "--stand-ins")
    assert probed.document["probe"]["runs"] == []
    assert probed.document["probe"]["ending"]["kind"] == "no-training"


def test_without_the_option_nothing_is_replaced_and_it_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, CHAT.replace("import json", ""), "--offline")
    assert probed.code == 3
    assert probed.run["stand_ins"] == []
    assert probed.document["reason"].endswith("`--stand-ins` replaces what is not here")


ADAPTER = """
import torch
from peft import PeftConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

config = PeftConfig.from_pretrained("somebody/opt-350m-lora")
tokenizer = AutoTokenizer.from_pretrained(config.base_model_name_or_path)
base = AutoModelForCausalLM.from_pretrained(config.base_model_name_or_path)
model = PeftModel.from_pretrained(base, "somebody/opt-350m-lora", is_trainable=True)
optimizer = torch.optim.AdamW(model.parameters())
for text in ("one row", "two rows", "three rows", "four rows"):
    encoded = tokenizer(text, return_tensors="pt")
    model(**encoded, labels=encoded["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_an_adapter_of_the_hub_is_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, ADAPTER, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["somebody/opt-350m-lora, adapter"] == "a LoRA adapter that was not trained"
    assert found["somebody/opt-350m-lora"] == "OPTForCausalLM, 2 layers, random weights"


OWN_ROWS = """
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader

data = load_dataset("somebody/houses", split="train")
assert data.column_names == ["rooms", "price"], data.column_names
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
for row in DataLoader(data, batch_size=4):
    loss = ((model(row["rooms"].float()[:, None])[:, 0] - row["price"]) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_rows_of_a_file_stand_for_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    (tmp_path / "houses.csv").write_text("rooms,price\n" + "".join(f"{row},{row / 2}\n" for row in range(40)))
    probed = probe(tmp_path, OWN_ROWS, "--stand-in-data", str(tmp_path / "houses.csv"))
    assert probed.stages["step"] == "passed"
    assert replaced(probed)["somebody/houses"] == "rows of houses.csv (train 32, validation 8, test 8)"


DIGITS = """
import keras

(images, labels), (test_images, test_labels) = keras.datasets.mnist.load_data()
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images / 255.0, labels, validation_data=(test_images / 255.0, test_labels))
"""


def test_digits_of_keras_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, DIGITS, "--stand-ins")
    assert (probed.stages["step"], probed.stages["evaluation"]) == ("passed", "passed")
    assert replaced(probed)["keras mnist"] == "60000 and 10000 random images of 28 x 28 pixels"


PHOTOS = """
import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, folder):
        if not os.path.isdir(folder):
            raise FileNotFoundError(folder)
        self.files = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg")]

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        pixels = np.asarray(Image.open(self.files[index]).resize((8, 8)), dtype="float32") / 255
        return torch.from_numpy(pixels).flatten(), int("second" in self.files[index])


model = torch.nn.Linear(8 * 8 * 3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for pixels, labels in DataLoader(Photos("photos"), batch_size=8, shuffle=True):
    torch.nn.functional.cross_entropy(model(pixels), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_folder_of_pictures_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, PHOTOS, "--stand-ins")
    assert probed.stages["step"] == "passed"
    assert replaced(probed) == {"photos": "a folder with 64 random images"}
    assert not (tmp_path / "photos").exists()


OLDER = """
from datasets import load_dataset
from transformers import AdamW, AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
from transformers.deepspeed import is_deepspeed_zero3_enabled
from transformers.utils import send_example_telemetry

send_example_telemetry("run", None)
tokenizer = AutoTokenizer.from_pretrained("somebody/bert-mine")
count = 60_000
rows = load_dataset("somebody/pairs", split="train").select(range(count))
assert len(rows) == count
rows = rows.map(lambda row: {**tokenizer(row["sentence"], truncation=True), "labels": row["label"]})
model = AutoModelForSequenceClassification.from_pretrained("somebody/bert-mine")
optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=False)
settings = TrainingArguments("out", evaluation_strategy="no", overwrite_output_dir=True, report_to=[])
Trainer(model, settings, train_dataset=rows, tokenizer=tokenizer, optimizers=(optimizer, None)).train()
"""


def test_what_only_older_versions_had_is_named_and_the_training_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, OLDER, "--stand-ins")
    assert probed.stages["step"] == "passed"
    made = replaced(probed)
    assert made["transformers.AdamW"] == "torch.optim.AdamW of the installed version"
    assert made["transformers.deepspeed"] == "transformers.integrations.deepspeed of the installed version"
    assert made["TrainingArguments(evaluation_strategy=)"].startswith("eval_strategy=")
    assert made["TrainingArguments(overwrite_output_dir=)"].startswith("left out")
    assert made["Trainer(tokenizer=)"].startswith("processing_class=")
    confirmed = {
        (each["rule"], each["subject"])
        for each in probed.document["findings"]
        if each["verdict"]["outcome"] == "confirmed"
    }
    assert {("removed-name", "AdamW"), ("removed-argument", "evaluation_strategy")} <= confirmed


FLOWERS = """
import os

import numpy as np
import torch
from PIL import Image

root, weights = "flowers", "start.pth"
assert os.path.exists(root), "no pictures"
classes = [name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))]
files = [(os.path.join(root, name, each), name) for name in classes for each in os.listdir(os.path.join(root, name))]
assert len(classes) > 1 and files
net = torch.nn.Linear(96 * 96 * 3, len(classes))
assert torch.cuda.FloatTensor(2, 3).device.type == torch.cuda.LongTensor([1]).device.type == "cpu"
if not os.path.exists(weights):
    raise FileNotFoundError(weights)
state = torch.load(weights, map_location="cpu")
del state["head.bias"]
net.load_state_dict(state["model"], strict=False)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for file, name in files[:8]:
    pixels = torch.from_numpy(np.asarray(Image.open(file), dtype="float32") / 255).flatten()[None]
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(pixels), torch.tensor([classes.index(name)])).backward()
    optimizer.step()
"""


def test_folders_of_classes_and_files_of_weights_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, FLOWERS, "--stand-ins")
    assert probed.stages["step"] == "passed"
    assert replaced(probed)["start.pth"] == "random weights of the same model"


REQUIRED = """
import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from google.colab import userdata
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, HfArgumentParser


@dataclass
class Settings:
    model_name: str
    max_length: int
    warmup: float = 0.0


parser = argparse.ArgumentParser()
parser.add_argument("rows")
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--sizes", type=int, nargs=2, required=True)
parser.add_argument("--schedule", choices=["cosine", "linear"], required=True)
given, rest = parser.parse_known_args()
(settings,) = HfArgumentParser(Settings).parse_args_into_dataclasses()
os.environ["HF_TOKEN"] = userdata.get("HF_TOKEN")
print(os.environ["WANDB_API_KEY"], os.environ.get("NOTHING"))
tokenizer = AutoTokenizer.from_pretrained(settings.model_name)
model = AutoModelForSequenceClassification.from_pretrained(settings.model_name, num_labels=3)
rows = [json.loads(line)["question"] for line in Path(given.rows).read_text().splitlines()]
optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr)
for texts in DataLoader(rows, batch_size=4):
    encoded = tokenizer(texts, max_length=settings.max_length, truncation=True, padding=True, return_tensors="pt")
    loss = model(**encoded, labels=torch.tensor([0, 1, 2, 0])).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_script_requires_is_made_by_type_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    probed = probe(tmp_path, REQUIRED, "--stand-ins")
    assert probed.stages["step"] == "passed"
    made = {name: by.removesuffix(", as the script requires a value") for name, by in replaced(probed).items()}
    arguments = {"rows": "stand-in.jsonl", "--lr": "0.0001", "--sizes": "[4, 4]", "--schedule": "cosine"}
    fields = {"--model_name": "stand-in/model", "--max_length": "128", "$WANDB_API_KEY": "stand-in"}
    assert made.items() >= {**arguments, **fields}.items()
    assert made["stand-in.jsonl"] == "64 rows with the columns that the script reads: question"


GIVEN = """
import argparse
import contextlib
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
rate = parser.parse_args().rate
with contextlib.suppress(SystemExit):
    parser.parse_args([])
    raise AssertionError
try:
    os.environ["NO_SUCH_NAME"]
except KeyError:
    pass
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), rate)
for row in torch.utils.data.DataLoader(torch.ones(16, 2), batch_size=4):
    optimizer.zero_grad()
    model(row).mean().backward()
    optimizer.step()
"""


def test_what_is_given_or_may_be_missing_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, GIVEN, "--stand-ins", arguments=("--rate", "0.5"))
    assert (probed.stages["step"], replaced(probed)) == ("passed", {})


FOLDER = """
import json

import torch
from transformers import AutoModelForSequenceClassification, BertConfig

BertConfig(vocab_size=99, hidden_size=640, num_attention_heads=10).save_pretrained("bert")
with open("training.json") as opened:
    settings = json.load(opened)
model = AutoModelForSequenceClassification.from_pretrained("bert", num_labels=3)
assert model.num_labels == 3 and model.config.vocab_size == 99
optimizer = torch.optim.AdamW(model.parameters(), lr=settings["learning_rate"])
ids = torch.arange(8)[None] + 5
for _ in range(settings["epochs"]):
    loss = model(input_ids=ids, labels=torch.tensor([2])).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_folder_without_weights_and_missing_settings_take_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, FOLDER, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["bert"] == "BertForSequenceClassification, small, random weights: the folder has none"
    assert found["training.json"] == "an object with the keys that the script reads: epochs, learning_rate"


def test_a_gpu_that_is_only_chosen_is_listed_too(tmp_path: Path) -> None:
    script = """
import torch
torch.cuda.set_device(0)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
    probed = probe(tmp_path, script, "--stand-ins")
    assert [(each["name"], each["by"]) for each in probed.run["stand_ins"]] == [("cuda", "the CPU")]


ARRAYS = """
import pickle
from pathlib import Path

import numpy as np
import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset


def load_config(path):
    with open(path) as opened:
        return yaml.safe_load(opened)


config = load_config("missing.yaml")
with open("../settings.yml") as opened:
    kept = yaml.safe_load(opened)
rows = np.load("rows.npz")
signals, labels = rows["signals"], torch.tensor(rows["labels"]) - 1
pictures = np.load("pictures.npy")
height, width, depth = pictures.shape
with open("held_out.pkl", "rb") as opened:
    held_out, held_out_labels = pickle.load(opened)
signals = torch.tensor(signals).reshape(len(signals), 7, 5).flatten(1)
model = torch.nn.Linear(35, kept["classes"])
optimizer = torch.optim.SGD(model.parameters(), lr=config["train"]["lr"])
for inputs, targets in DataLoader(TensorDataset(signals, labels), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
"""


def test_files_of_arrays_and_settings_are_made_until_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    (project / "settings.yml").write_text("classes: 4\n")
    script = ARRAYS.replace("../settings.yml", "settings.yml")
    probed = probe(project / "scripts", script, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["settings.yml"] == "the file of that name in project"
    assert found["missing.yaml"] == "an object with the keys that the script reads: classes, train"
    assert found["rows.npz, signals"] == "random numbers of shape (64, 35)"
    assert found["rows.npz, labels"] == "labels of 4 classes of shape (64,)"
    assert found["pictures.npy"] == "random numbers of shape (64, 35, 26)"
    assert found["held_out.pkl, held_out_labels"] == "labels of 4 classes of shape (64,)"
    assert found["arrays, labels from 1"] == "as the script requires, after IndexError: Target -1 is out of bounds."


STREAMS = """
import torch


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.stream = torch.cuda.Stream()

    def __iter__(self):
        for batch in self.batches:
            with torch.cuda.stream(self.stream):
                batch = batch.cuda(non_blocking=True)
            torch.cuda.current_stream().wait_stream(self.stream)
            batch.record_stream(torch.cuda.current_stream())
            yield batch


model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=8, shuffle=True)
for batch in Prefetcher(loader):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
"""


def test_streams_of_a_gpu_have_nothing_to_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, STREAMS, "--stand-ins")
    assert probed.stages["step"] == "passed"
    assert replaced(probed) == {"cuda": "the CPU"}


TASKS = """
import torch
import yaml

MAKERS = {"count": lambda size: torch.arange(size).float(), "copy": torch.ones}


def rows_of(name, size):
    if name not in MAKERS:
        raise ValueError(f"{name} is no task")
    return torch.stack([MAKERS[name](size) for _ in range(16)])


with open("missing.yaml") as opened:
    settings = yaml.safe_load(opened)
rows = rows_of(settings["data"]["task"], 4)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=settings["train"]["lr"])
for batch in torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
"""


def test_settings_that_are_not_here_name_a_task_that_the_script_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, TASKS, "--stand-ins")
    assert probed.stages["step"] == "passed"
    found = replaced(probed)
    assert found["missing.yaml"] == "an object with the keys that the script reads: data, train"
    assert found["task"] == "count, after ValueError: stand-in is no task"


PICTURES_OF_A_TABLE = """
import os

import numpy as np
import pandas as pd
import torch
from PIL import Image


class Pictures(torch.utils.data.Dataset):
    def __init__(self, table, folder):
        self.table, self.folder = table, folder

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        row = self.table.iloc[index]
        picture = Image.open(os.path.join(self.folder, row["photo"])).convert("L").resize((4, 4))
        return torch.tensor(np.array(picture)).float().flatten() / 255, int(row["label"])


rows = Pictures(pd.read_csv("photos.csv"), "photos")
model = torch.nn.Linear(16, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
"""


def test_pictures_that_a_made_table_names_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, PICTURES_OF_A_TABLE, "--stand-ins")
    assert probed.stages["step"] == "passed"
    assert replaced(probed)["photos.csv, photo"].startswith("image-file, after FileNotFoundError")
