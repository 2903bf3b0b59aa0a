"""What an answer about a file rests on is noted whole, also where another file was read before it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lintrain.cache.noted import Memory, note, note_asked, note_listed, noted_files
from lintrain.cache.watch import Watch
from lintrain.cache.whole_files import FOLDER
from lintrain.check.files import FileReader
from lintrain.check.selection import CheckRequest, Selection, known_names
from lintrain.knowledge.versions import VersionFinder
from lintrain.rulebook import find_rules, rule_folder
from lintrain.source.project import TREES
from tests.conftest import ROOT

FIXTURES = sorted(
    str(path)
    for path in (ROOT / "fixtures").rglob("*")
    if path.suffix in (".py", ".ipynb") and "__pycache__" not in path.parts
)


@cache
def _selection() -> Selection:
    known = known_names(find_rules())
    return Selection(frozenset(known), known)


def reader_of(files: list[str]) -> FileReader:
    return FileReader(CheckRequest(files, find_rules(), _selection(), VersionFinder().find))


def heard(watch: Watch) -> Iterator[str]:
    """The paths that the watch heard of, without those of lintrain itself and of the modules that it imports."""
    ours = (str(ROOT / "lintrain"), str(rule_folder()), str(Path(os.__file__).parent))
    for (path, _), stamp in watch.seen.items():
        name = os.path.normpath(os.fsdecode(path))
        if not name.startswith(ours) and (stamp != FOLDER or not name.endswith(("site-packages", "dist-packages"))):
            yield name


@pytest.mark.parametrize("part", range(4))
def test_every_look_at_the_disk_is_noted(part: int) -> None:
    reader_of(FIXTURES).read(FIXTURES[0])  # what is imported now is heard of no more
    for file in FIXTURES[part::4]:
        TREES.held.clear()
        unnoted, unread = looks_that_were_not_noted(file)
        assert (unnoted, unread) == (set(), set()), file


SCRIPT = """\
import json
import pandas as pd
import yaml
from datasets import load_dataset, load_from_disk
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
import parts.model

tokenizer = AutoTokenizer.from_pretrained("./saved")
model = AutoModelForSequenceClassification.from_pretrained("org/cached")
frame = pd.read_csv("rows.csv")
rows = load_dataset("json", data_files="rows.jsonl")
kept = load_from_disk("kept")
prepared = load_dataset("org/prepared", "plain")
options = yaml.safe_load(open("options.yaml"))
settings = json.load(open("settings.json"))
tokenized = rows.map(lambda row: tokenizer(row["text"]), remove_columns=["text"])
trainer = Trainer(parts.model.Net(), TrainingArguments("out", **settings), train_dataset=tokenized["train"])
trainer.train()
"""
BESIDE = {
    "parts/__init__.py": "",
    "parts/model.py": "import torch\nclass Net(torch.nn.Module):\n    pass\n",
    "saved/config.json": '{"model_type": "bert", "vocab_size": 10}',
    "saved/tokenizer_config.json": "{}",
    "hf/hub/models--org--cached/refs/main": "abc",
    "hf/hub/models--org--cached/snapshots/abc/config.json": '{"model_type": "bert"}',
    "hf/datasets/org___prepared/plain/0.0.0/abc/dataset_info.json": '{"features": {"label": {"dtype": "int64"}}}',
    "kept/dataset_info.json": "{}",
    "kept/state.json": "{}",
    "rows.csv": "text,label\na,1\n",
    "rows.jsonl": '{"text": "a"}\n',
    "options.yaml": "rate: 1\n",
    "settings.json": '{"learning_rate": 1e-5}',
    "requirements.txt": "transformers==4.57.6\n",
    ".venv/lib/python3.11/site-packages/torch-2.4.0.dist-info/METADATA": "",
    ".git/HEAD": "",
    "train.py": SCRIPT,
}


def test_every_look_at_what_lies_beside_a_script_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in BESIDE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    reader_of(FIXTURES).read(FIXTURES[0])
    assert looks_that_were_not_noted("train.py") == (set(), set())
    looked_at = set(reader_of(["train.py"]).read("train.py").rests_on.read)
    unasked = {".git/HEAD", ".venv/lib/python3.11/site-packages/torch-2.4.0.dist-info/METADATA", "kept/state.json"}
    assert {str(tmp_path / name) for name in BESIDE.keys() - unasked} <= looked_at


class Opening(Watch):
    """A watch that tells what was opened from what was only asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = set[str]()

    def event(self, name: str, given: tuple[Any, ...]) -> None:
        if name == "open" and isinstance(given[0], str | bytes):
            self.opened.add(os.path.join(os.getcwd(), os.fsdecode(given[0])))  # noqa: PTH109, PTH118 - links are not followed
        super().event(name, given)


def looks_that_were_not_noted(file: str) -> tuple[set[str], set[str]]:
    """The paths that were asked for and not noted, and those that were opened and not noted as read."""
    TREES.held.clear()
    watch = Opening()
    with watch:
        noted = reader_of([file]).read(file).rests_on
    names = set(heard(watch))
    return names - set(noted), (watch.opened & names) - noted.read


def test_what_a_file_rests_on_is_the_same_whatever_was_read_before() -> None:
    together = reader_of(FIXTURES)
    for file in FIXTURES[::3]:
        before, alone = together.read(file).rests_on, reader_of([file]).read(file).rests_on
        assert (before.asked, before.read, before.listed) == (alone.asked, alone.read, alone.listed), file


def test_an_answer_that_is_given_again_rests_on_what_it_was_made_of(tmp_path: Path) -> None:
    memory = Memory[str, int]()

    def make() -> int:
        note(tmp_path / "read")
        note_asked(tmp_path / "asked")
        note_listed(tmp_path, "*.txt")
        return 1

    assert memory.get("question", make) == 1
    with noted_files() as around:
        with noted_files() as noted:
            assert memory.get("question", make) == 1
        note(tmp_path / "later")
    whole = {str(tmp_path / "asked")}, {str(tmp_path / "read")}, {(str(tmp_path), "*.txt")}
    assert (noted.asked, noted.read, noted.listed) == whole
    assert set(around) == {*noted, str(tmp_path / "later")}
