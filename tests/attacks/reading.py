"""Attacks on `reading-is-bounded`: pipes, devices, endless and packed files where a project should have files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import Ended, assert_bounded, lintrain

SCRIPT = """
import json

import pandas as pd
import yaml
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

settings = yaml.safe_load(open("settings.yaml"))
more = json.load(open("settings.json"))
frame = pd.read_csv("rows.csv")
data = load_dataset("json", data_files="rows.jsonl")
other = load_dataset("parquet", data_files="rows.parquet")
model = AutoModelForSequenceClassification.from_pretrained("model", num_labels=settings["labels"])
Trainer(model=model, args=TrainingArguments("out", learning_rate=more["rate"]), train_dataset=data["train"]).train()
"""

READ_BY_CHECK = (
    "pyproject.toml",
    "lintrain.toml",
    ".lintrain.toml",
    ".gitignore",
    ".git",
    "helper.py",
    "sheet.ipynb",
    "settings.yaml",
    "settings.json",
    "rows.csv",
    "rows.jsonl",
    "rows.parquet",
    "model/config.json",
    "model/tokenizer_config.json",
    "model/adapter_config.json",
    "requirements.txt",
    "uv.lock",
    "poetry.lock",
    "environment.yml",
    "setup.cfg",
)
"""Whatever a check may look at, in a project that trains."""


def make_pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """A link to a device without an end."""
    path.symlink_to("/dev/zero")


def make_sparse(path: Path) -> None:
    """A file of 60 GB that takes no room."""
    path.touch()
    os.truncate(path, 60 * 10**9)


KINDS: dict[str, Callable[[Path], None]] = {"pipe": make_pipe, "device": make_device, "sparse": make_sparse}


def project(folder: Path) -> None:
    """A project that reads all of these, as they should be."""
    (folder / "model").mkdir()
    (folder / "train.py").write_text(SCRIPT)


@attack(
    "reading-is-bounded",
    cases={f"{name}-is-a-{kind}": (name, kind) for name, kind in product(READ_BY_CHECK, KINDS)},
    slow=True,
)
def file_of_a_project(folder: Path, chosen: tuple[str, str]) -> None:
    """Each file that a check may look at."""
    name, kind = chosen
    project(folder)
    KINDS[kind](folder / name)
    assert_bounded(lintrain(folder, "check", ".", "train.py", seconds=30), codes=(0, 1, 2))


@attack("reading-is-bounded", cases=KINDS)
def all_files_of_a_project(folder: Path, make: Callable[[Path], None]) -> None:
    """All of them at once that do not end the check by what they are."""
    project(folder)
    for name in READ_BY_CHECK[3:]:
        make(folder / name)
    assert_bounded(lintrain(folder, "check", "train.py", seconds=30), codes=(0, 1))


NAMED = {
    "a-script": ("check", "named.py"),
    "a-notebook": ("check", "named.ipynb"),
    "configuration": ("check", "--config", "named.toml", "train.py"),
    "a-baseline": ("check", "--baseline", "named.json", "train.py"),
    "evidence": ("judge", "named.json"),
    "a-script-to-probe": ("probe", "named.py"),
    "a-notebook-to-probe": ("probe", "named.ipynb"),
    "a-report-to-merge": ("report", "merge", "named.json", "named.json"),
}


@attack(
    "reading-is-bounded",
    cases={f"{what}-is-a-{kind}": (what, kind) for what, kind in product(NAMED, ("pipe", "device"))},
)
def file_that_the_user_names(folder: Path, chosen: tuple[str, str]) -> None:
    """A file that somebody names in good faith, in a folder from elsewhere."""
    what, kind = chosen
    project(folder)
    command = NAMED[what]
    KINDS[kind](folder / next(word for word in command if word.startswith("named")))
    ended = lintrain(folder, *command, seconds=60)
    assert_bounded(ended, codes=(0, 1, 2, 3))


@attack("reading-is-bounded", cases=["script.py", "notebook.ipynb"])
def endless_standard_input(folder: Path, name: str) -> None:
    """What is piped into a check has no end."""
    ended = lintrain(folder, "check", "--stdin-filename", name, "-", stdin=Path("/dev/zero"), seconds=60)
    assert_bounded(ended, codes=(0, 1, 2))


@attack("reading-is-bounded", cases=[".gitmodules", ".pre-commit-config.yaml", "pyproject.toml", "requirements.txt"])
def file_that_init_reads(folder: Path, name: str) -> None:
    """The files of a project that `init` looks at."""
    project(folder)
    make_pipe(folder / name)
    assert_bounded(lintrain(folder, "init", "--dry-run", "--with-hook", seconds=30), codes=(0, 1, 2))


def assert_small(ended: Ended) -> None:
    """The bounds hold for a notebook that is larger than 100 KB, too: packed it is smaller."""
    assert_bounded(ended)
    assert ended.peak_bytes <= 600 * 2**20, f"{ended.peak_bytes / 2**20:.0f} MiB"


def empty_lists(count: int) -> str:
    """The text of a list of so many empty lists."""
    return f"[{'[],' * (count - 1)}[]]"


CELL = '{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "import torch\\n", "outputs": []}'
NOTEBOOKS = {
    "outputs": CELL.replace("[]", empty_lists(10_000_000)),
    "output-data": CELL.replace("[]", f'[{{"data": {{"x": {empty_lists(10_000_000)}}}}}]'),
    "attachments": CELL.replace('"metadata"', f'"attachments": {{"a": {empty_lists(10_000_000)}}}, "metadata"'),
    "cell-metadata": CELL.replace('"metadata": {}', f'"metadata": {{"a": {empty_lists(10_000_000)}}}'),
    "cells": ", ".join([CELL] * 300_000),
    "source": CELL.replace('"import torch\\n"', f"[{', '.join(['1'] * 10_000_000)}]"),
    "open-outputs": CELL.replace("[]}", "[" * 20_000_000),
    "brackets-in-a-string": CELL.replace("[]", f'["{"[" * 30_000_000}"]'),
}


@attack("reading-is-bounded", cases=NOTEBOOKS, slow=True)
def packed_notebook(folder: Path, cells: str) -> None:
    """A notebook of 30 MB, whose parts would take twenty-four times as much when decoded."""
    text = f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}'
    (folder / "a.ipynb").write_text(text)
    assert_small(lintrain(folder, "check", "a.ipynb"))


@attack("reading-is-bounded", cases={"dots": ".", "digits": "1", "commas": ",[],", "braces": "{"})
def packed_settings(folder: Path, sign: str) -> None:
    """Data of a project that fills the memory when decoded."""
    project(folder)
    for name in ("settings.yaml", "settings.json", "rows.jsonl", "model/config.json"):
        (folder / name).write_text("a = [" + sign * (90_000 // len(sign)))
    assert_bounded(lintrain(folder, "check", "train.py"), codes=(0, 1, 2))


@attack("reading-is-bounded")
def yaml_of_aliases(folder: Path) -> None:
    """Ten lines of YAML that stand for a billion values."""
    project(folder)
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (folder / "settings.yaml").write_text("\n".join(lines) + "\nlabels: *a9\n")
    assert_bounded(lintrain(folder, "check", "train.py"), codes=(0, 1))


@attack("reading-is-bounded")
def baseline_of_many_entries(folder: Path) -> None:
    """A baseline of 90 KB."""
    project(folder)
    (folder / "named.json").write_text(json.dumps({"version": 1, "findings": {"train.py": [{}] * 25_000}}))
    assert_bounded(lintrain(folder, "check", "--baseline", "named.json", "train.py"), codes=(0, 1, 2))
