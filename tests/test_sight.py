"""The benchmark of sight counts what is known in a small clone, and names what makes the rest unknown."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from benchmarks.sight.__main__ import document_of, main, read_clone
from benchmarks.sight.clones import Folder, folders_in, half_of, read_repositories
from benchmarks.sight.origins import Mechanism, Origins
from benchmarks.sight.questions import (
    BATCH_SIZE,
    CHECKPOINT,
    COLUMNS,
    LOSS,
    OTHER_TARGET,
    ROWS,
    TARGET,
    Items,
    Question,
    asked_in,
)
from benchmarks.sight.replacing import watched
from benchmarks.sight.summary import Clone, Maker, answers_of, makers_of, shares_of
from benchmarks.sight.tracing import traced
from lintrain.interpreter.core import dispatch
from lintrain.knowledge.versions import exactly
from lintrain.pipeline.values import python
from lintrain.read import load, read_pipeline
from lintrain.source.project import Project
from lintrain.source.reading import read_bytes

ROWS_OF_THE_SCRIPT = """\
import torch
from torch.utils.data import Dataset
from somewhere import read_image


class Pairs(Dataset):
    def __getitem__(self, index):
        return torch.zeros(3), torch.ones(1)


class Images(Dataset):
    def __getitem__(self, index):
        return {"image": read_image(index), "label": 1}


class Files(Dataset):
    def __getitem__(self, index):
        return torch.load(index)
"""

LOOP = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from rows import Files, Images, Pairs

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
options = parser.parse_args()
model = nn.Linear(3, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(inputs, targets):
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()


for inputs, targets in DataLoader(Pairs(), batch_size=4):
    step(inputs, targets)
for batch in DataLoader(Images(), batch_size=options.batch_size):
    criterion(model(batch["image"]), batch["label"])
for inputs, targets in DataLoader(Files(), batch_size=torch.cuda.current_device()):
    loss = criterion(model(inputs), targets)
    scaled(loss).backward()
"""

SECOND_LOOP = """\
from torch.utils.data import DataLoader
from rows import Files

for inputs, targets in DataLoader(Files(), batch_size=2):
    print(targets)
"""

TRAINER = """\
import sys

from datasets import load_dataset
from somewhere import read_rows
from transformers import AutoModelForSequenceClassification, Trainer

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
other = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
Trainer(model, train_dataset=load_dataset("glue", "mrpc")["train"]).train()
data = load_dataset("glue", "sst2")["train"] if len(sys.argv) > 2 else read_rows()
Trainer(other, train_dataset=data).train()
"""

UNIT_TESTS = """\
import unittest

from transformers import Trainer


class TestTrainer(unittest.TestCase):
    def test_it(self):
        Trainer(None, train_dataset=None).train()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("clone")
    for name, text in {
        "rows.py": ROWS_OF_THE_SCRIPT,
        "loop.py": LOOP,
        "second_loop.py": SECOND_LOOP,
        "trainer.py": TRAINER,
        "test_trainer.py": UNIT_TESTS,
    }.items():
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def clone(folder: Path) -> Clone:
    return read_clone(Folder(folder, "clone"))


def counted(clone: Clone, question: Question) -> dict[str, int]:
    """The levels of a question that are met at all, with the number of their locations."""
    return {share.level: share.locations for share in shares_of(question, answers_of([clone])) if share.locations}


@pytest.mark.parametrize(
    ("question", "counts"),
    [
        (COLUMNS, {"all columns": 1, "unknown": 1}),
        (ROWS, {"all parts": 1, "structure only": 1, "unknown": 1}),
        (BATCH_SIZE, {"literal": 2, "default": 1, "unknown": 1}),
        (CHECKPOINT, {"literal": 1, "unknown": 1}),
        (TARGET, {"with its rank": 1, "unknown": 1}),
        (OTHER_TARGET, {"with its rank": 1}),
        (LOSS, {"known": 1, "unknown": 1}),
    ],
    ids=lambda given: given.name if isinstance(given, Question) else "",
)
def test_each_question_is_counted_by_level(clone: Clone, question: Question, counts: dict[str, int]) -> None:
    assert counted(clone, question) == counts


def test_only_training_scripts_are_read(clone: Clone) -> None:
    assert [Path(reading.path).name for reading in clone.readings] == ["loop.py", "second_loop.py", "trainer.py"]
    assert [reading.trouble for reading in clone.readings] == ["", "", ""]


def test_a_location_counts_once_for_all_scripts_that_reach_it(clone: Clone) -> None:
    readings = [answer for reading in clone.readings for answer in reading.answers if answer.question == ROWS.name]
    assert (len(readings), sum(counted(clone, ROWS).values())) == (4, 3)


def test_the_share_over_files_is_the_mean_of_those_of_the_files(clone: Clone) -> None:
    literal, *_ = shares_of(BATCH_SIZE, answers_of([clone]))
    assert (literal.of_locations, literal.of_files) == (2 / 4, (1 / 3 + 1) / 2)


def origins_of(clone: Clone) -> dict[str, tuple[str, int]]:
    """What makes unknown values, with its mechanism and the number of its locations."""
    return {maker.name: (maker.mechanism, maker.locations) for maker in makers_of(answers_of([clone]))}


def test_what_makes_a_value_unknown_is_named_by_its_call(clone: Clone) -> None:
    assert origins_of(clone) == {
        "torch.load()": (Mechanism.FUNCTION, 2),
        "somewhere.read_image()": (Mechanism.FOREIGN, 1),
        "somewhere.read_rows()": (Mechanism.FOREIGN, 1),
        "torch.cuda.current_device()": (Mechanism.FUNCTION, 1),
        "Library[Constant]": (Mechanism.SUBSCRIPT, 1),
        "bound by nothing": (Mechanism.NAME, 1),
    }


def test_the_origin_of_a_part_of_a_batch_is_that_of_the_row(clone: Clone) -> None:
    maker: Maker = makers_of(answers_of([clone]))[0]
    assert maker.name == "torch.load()"
    assert maker.questions == {TARGET.name: 1, ROWS.name: 1}


def levels_of(script: Path, observed: AbstractContextManager[Items | Origins]) -> dict[tuple[str, int], str]:
    """The level of each question by line, from a reading while the interpreter is observed."""
    load()
    source = read_bytes(str(script), script.read_bytes())
    with observed as kept:
        pipeline = read_pipeline(source, exactly(), Project())
    items = kept.items if isinstance(kept, Origins) else kept
    return {(asked.question.name, asked.location.line): asked.level for asked in asked_in(pipeline, items)}


@pytest.mark.parametrize("name", ["loop.py", "trainer.py"])
def test_a_reading_for_the_origins_knows_as_much_as_an_ordinary_one(folder: Path, name: str) -> None:
    assert levels_of(folder / name, traced()) == levels_of(folder / name, watched())


def test_the_interpreter_is_as_before_after_a_reading(clone: Clone) -> None:
    for function in (dispatch.evaluate, dispatch.invoke, python.join):
        assert function.__module__.startswith("lintrain.")


def test_the_json_document_has_every_question(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--json", "--calls", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [share["locations"] for share in document["questions"][BATCH_SIZE.name]] == [2, 1, 0, 1]
    assert len(document["calls"]) == 2
    assert document["seconds"]["files"] == 3


def test_the_text_has_a_line_for_each_question(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 clones, 3 training scripts, ")
    (line,) = (line for line in lines if line.startswith(BATCH_SIZE.name))
    assert line.endswith("literal 50% / 67%, default 25% / 17%, not given 0% / 0%, unknown 25% / 17%")


def test_a_clone_without_training_scripts_has_no_shares(tmp_path: Path) -> None:
    document = document_of([read_clone(Folder(tmp_path, "empty"))], 1)
    assert set(map(len, document["questions"].values())) == {0}


def test_the_half_of_a_repository_follows_from_its_name() -> None:
    repositories = read_repositories()
    assert {repository.half for repository in repositories} == {"work", "measure"}
    assert [repository.half for repository in repositories] == [half_of(each.name) for each in repositories]


def test_a_clone_at_another_commit_is_trouble(tmp_path: Path) -> None:
    first = read_repositories()[0]
    (tmp_path / first.name).mkdir(parents=True)
    (found,) = folders_in(tmp_path)
    assert (found.name, found.half) == (first.name, first.half)
    assert first.commit in found.trouble
