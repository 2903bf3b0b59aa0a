"""A project whose files are led to by one another, and what a check reads of it: for the tests of what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lintrain.cli
from lintrain.cache import whole_files
from lintrain.cache.whole_files import SECOND
from lintrain.check.files import FileReader, ReadFile
from lintrain.rulebook import find_rules

TRAIN = """\
import json
from parts.model import build
from parts import rows
import evaluate
from transformers import Trainer, TrainingArguments

settings = json.load(open("settings.json"))
args = TrainingArguments("out", evaluation_strategy="epoch", **settings)
trainer = Trainer(build(), args, train_dataset=rows.train)
trainer.train()
"""
MODEL = """\
from transformers import AutoModelForSequenceClassification

def build():
    return AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
"""
ROWS = 'from datasets import load_dataset\n\ntrain = load_dataset("glue", "mnli")["train"]\n'
LOOP = """\
import torch
from parts.net import net

optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for batch in batches:
    loss = net(batch).sum()
    loss.backward()
    optimizer.step()
"""
NET = "import torch\n\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Softmax(dim=1))\n"
CELLS = ["!pip install transformers==4.57.6\n", "from transformers import TrainingArguments\n", "missing_name\n"]


def notebook(*cells: str) -> str:
    rows: list[dict[str, object]] = [
        {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [], "execution_count": None} for cell in cells
    ]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


FILES = {
    "train.py": TRAIN,
    "loop.py": LOOP,
    "plain.py": "import torch\n\nprint(nothing)\n",
    "quiet.py": "import torch\n\nprint(nothing)  # lintrain: ignore[undefined-name] -- on purpose\n",
    "parts/__init__.py": "",
    "parts/model.py": MODEL,
    "parts/rows.py": ROWS,
    "parts/net.py": NET,
    "book.ipynb": notebook(*CELLS),
    "settings.json": '{"learning_rate": 1e-5}',
    "requirements.txt": "transformers==4.57.6\n",
}
CHECK = ["check", "--output-format", "json", "."]

Answer = tuple[int, str, str]
Ask = Callable[..., Answer]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose files are old enough to be told from changed ones."""
    monkeypatch.setenv("LINTRAIN_CACHE_DIR", str(tmp_path / "cache"))
    find_rules.cache_clear()  # a new process finds them itself
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * SECOND)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    for name, text in FILES.items():
        put(name, text)(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def read_afresh(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, and not taken from what is kept."""
    read: list[str] = []
    plain = FileReader.read

    def heard(self: FileReader, path: str) -> ReadFile:
        read.append(path)
        return plain(self, path)

    monkeypatch.setattr(FileReader, "read", heard)
    return read


@pytest.fixture
def ask(capsysbinary: pytest.CaptureFixture[bytes]) -> Ask:
    def asked(*words: str) -> Answer:
        code = lintrain.cli.run_or_repeat(list(words or CHECK))
        said = capsysbinary.readouterr()
        return code, said.out.decode(), said.err.decode()

    return asked


def put(name: str, text: str) -> Callable[[Path], object]:
    def write(project: Path) -> object:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        return (project / name).write_text(text)

    return write


def afresh(*words: str) -> list[str]:
    return ["check", "--no-cache", *(words or CHECK)[1:]]


def shelves(project: Path) -> list[Path]:
    return sorted((project.parent / "cache" / ".lintrain_cache" / "files").iterdir())


ALL = sorted(name for name in FILES if name.endswith((".py", ".ipynb")))
