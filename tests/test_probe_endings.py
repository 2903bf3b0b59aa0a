"""Endings of whole probes: the exit code, the stage by its name, the forward line, and what is not refuted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.launcher import Bounds, _line_in
from lintrain.runtime.parent.prober import Wanted, probe_script
from tests.support.probing import probe

pytestmark = pytest.mark.usefixtures("warm")

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.randn({width}), index % 3

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(10, 16), nn.Dropout(), nn.Linear(16, 3)
    def forward(self, rows):
        hidden = torch.exp(self.first(rows) / 10)
        {forward}
        return self.last(self.drop(hidden))

loader = DataLoader(Rows(), batch_size=8)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    for step, (rows, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows), labels{labels})
        loss.backward()
        optimizer.step()
        {after}
"""


def script(width: str = "10", forward: str = "pass", labels: str = "", after: str = "pass") -> str:
    return LOOP.format(width=width, forward=forward, labels=labels, after=after)


def failed(document: dict[str, Any]) -> dict[str, Any]:
    [run] = document["probe"]["runs"]
    return next(stage for stage in run["stages"] if stage["status"] == "failed")


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (
            "import torch\ntorch.nn.Lineer(1, 1)\n",
            1,
            "1 mistake confirmed",
        ),
        (
            "raise RuntimeError('no such luck')\n",
            1,
            "the script fails before any training call: RuntimeError: no such luck (train.py:1)",
        ),
        (
            "import sys\nsys.excepthook = lambda *_: print('hidden')\nraise RuntimeError('no such luck')\n",
            1,
            "the script fails before any training call: RuntimeError: no such luck (train.py:3)",
        ),
        (
            "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\nraise RuntimeError('no such luck')\n",
            1,
            "the script fails before any training call: RuntimeError: no such luck (train.py:3)",
        ),
        (
            "import sys\nsys.excepthook = lambda *_: None\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\n",
            3,
            "could not judge: the script ended without training: no `Trainer`, no `fit`, no optimizer step",
        ),
        (
            "import no_such_package\n",
            3,
            "could not judge: the script fails before any training call: ModuleNotFoundError: No module named "
            "'no_such_package' (train.py:1)",
        ),
        (
            "open('nothing_here/rows.csv')\n",
            3,
            "could not judge: the script fails before any training call: FileNotFoundError: [Errno 2] No such file or "
            "directory: 'nothing_here/rows.csv' (train.py:1)",
        ),
    ],
)
def test_a_script_that_fails_by_its_own_fault_ends_with_1(tmp_path: Path, text: str, code: int, reason: str) -> None:
    probed = probe(tmp_path, text)
    assert (probed.code, probed.document["reason"]) == (code, reason)


@pytest.mark.turns(one_in=3, of="file")
def test_what_is_missing_in_training_is_not_the_scripts_fault(tmp_path: Path) -> None:
    probed = probe(tmp_path, script(after="open('nothing_here/log.csv')"))
    assert probed.code == 3
    assert probed.document["reason"] == "could not judge the step stage: `nothing_here/log.csv` is not on this machine"


@pytest.mark.turns(one_in=3, of="file")
def test_a_third_training_batch_that_fails_is_a_batch(tmp_path: Path) -> None:
    stage = failed(probe(tmp_path, script(width="11 if index == 19 else 10")).document)
    assert (stage["name"], stage["reason"]) == ("batch", "batch 3")


@pytest.mark.turns(one_in=3, of="file")
def test_a_third_forward_pass_that_fails_is_a_forward_pass(tmp_path: Path) -> None:
    stage = failed(probe(tmp_path, script(labels=" + (9 if step == 2 else 0)")).document)
    assert (stage["name"], stage["reason"]) == ("forward", "batch 3")


@pytest.mark.turns(one_in=3, of="file")
def test_an_error_after_the_optimizer_step_belongs_to_the_step(tmp_path: Path) -> None:
    stage = failed(probe(tmp_path, script(after="1 / (step - 1)")).document)
    assert (stage["name"], stage["failure"]["location"]["line"]) == ("step", 30)


@pytest.mark.turns(one_in=3, of="file")
def test_an_error_after_the_training_is_no_evaluation(tmp_path: Path) -> None:
    probed = probe(tmp_path, script().replace("range(2)", "range(1)") + "\nmodel.save('model')\n")
    assert failed(probed.document)["reason"] == "after the training"
    assert probed.document["reason"] == "the script fails after its training: `Net` has no layer or weight `save`"


@pytest.mark.turns(one_in=3, of="file")
def test_the_forward_line_of_a_failing_backward_pass_is_named(tmp_path: Path) -> None:
    probed = probe(tmp_path, script(forward="hidden += 1"))
    stage = failed(probed.document)
    assert stage["name"] == "backward"
    assert stage["failure"]["forward"] == [
        "train.py:17: hidden = torch.exp(self.first(rows) / 10)",
        "train.py:18: hidden += 1 (changes its result in place)",
    ]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize(("often", "outcome"), [("50", "inconclusive"), ("2", "confirmed")])
def test_an_evaluation_that_no_followed_step_comes_to_is_not_refuted(tmp_path: Path, often: str, outcome: str) -> None:
    document = probe(tmp_path, script(after=f"if step % {often} == {often} - 1:\n            model.eval()")).document
    [finding] = [one for one in document["findings"] if one["rule"] == "eval-mode-in-training"]
    assert finding["verdict"]["outcome"] == outcome


IDS = """
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments)
from datasets import Dataset

made_ids = AutoTokenizer.from_pretrained("bert-base-cased")
given = AutoTokenizer.from_pretrained("roberta-base")
model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=2)
rows = Dataset.from_dict(dict(text=["a good film", "a bad one"] * 8, label=[0, 1] * 8))
rows = rows.map(lambda batch: made_ids(batch["text"]), batched=True)
args = TrainingArguments("out", max_steps=2, use_cpu=True)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorWithPadding(given), processing_class=given).train()
"""


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("assets")
def test_the_tokenizer_that_made_the_ids_is_judged_not_the_trainers(tmp_path: Path) -> None:
    document = probe(tmp_path, IDS).document
    assert document["probe"]["runs"][0]["tokenizer"]["checkpoint"] == "bert-base-cased"
    outcomes = [one["verdict"]["outcome"] for one in document["findings"] if one["rule"] == "tokenizer-model-mismatch"]
    assert outcomes == ["confirmed"]


SLOW = """
import sys, time
class Slow:
    def __init__(self, to):
        self.to = to
    def __getattr__(self, name):
        return getattr(self.to, name)
    def write(self, text):
        time.sleep(0.03)
        return self.to.write(text)
sys.stderr = Slow(sys.stderr)
raise ValueError("last words")
"""


def test_the_last_line_of_a_traceback_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SLOW)
    wanted = Wanted(Entry(tmp_path / "train.py"), sys.executable, Bounds(60.0), is_on_cpu=True)
    assert probe_script(wanted, lambda _: None).ending.output.endswith("ValueError: last words")


def test_a_limit_names_the_line_of_the_script_that_called_the_innermost_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import net\n\nloss = estimate()\nfor x in rows:\n    step(x)\n")
    (tmp_path / "net.py").write_text("def estimate():\n    return attend()\n")
    frames = [
        ("/lib/site-packages/torch/nn.py", 7, "forward"),
        (str(tmp_path / "net.py"), 2, "estimate"),
        (str(tmp_path / "train.py"), 3, "<module>"),
    ]
    script = tmp_path / "train.py"

    def line_of(innermost: int) -> str:
        text = "".join(f'  File "{path}", line {line} in {name}\n' for path, line, name in frames[innermost:])
        return _line_in(text, tmp_path, script)

    assert line_of(0) == ", at net.py:2: `return attend()`, called at train.py:3: `loss = estimate()`"
    assert line_of(2) == ", at train.py:3: `loss = estimate()`"
    assert not _line_in('  File "/lib/site-packages/torch/nn.py", line 7 in forward\n', tmp_path, script)
