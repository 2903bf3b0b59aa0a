"""Notebooks with the same code are read once, where nothing about their folders can make a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lintrain.check import files
from lintrain.check.files import FileReader, ReadFile
from lintrain.check.one_file import Reading, check_source
from lintrain.check.result import Crash
from lintrain.knowledge.versions import TargetVersions
from lintrain.source.reading import read_file
from lintrain.source.source import Source
from tests.conftest import ROOT
from tests.support.notebooks import notebook
from tests.test_cache_rests_on import reader_of

CODE = (
    "#md Training",
    "%pip install -q transformers==4.57.6",
    "from datasets import load_dataset\nimport numpy as np\nimport helpers.plots",
    "from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments",
    'raw = load_dataset("glue", "mnli")\ntokenizer = AutoTokenizer.from_pretrained("./bert")\n'
    "tokenized = raw.map(lambda rows: tokenizer(rows['premise'], truncation=True))",
    'model = AutoModelForSequenceClassification.from_pretrained("./bert", num_labels=2)\n'
    'arguments = TrainingArguments("out", learning_rate=5.0)',
    'Trainer(model, arguments, train_dataset=raw["train"]).train()  # lintrain: ignore[seed]',
)


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course in two languages, in the working folder of a machine that has no models yet."""
    monkeypatch.chdir(tmp_path)
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    write("course/.git/HEAD", "")
    write("course/de/first.ipynb", notebook(*CODE))
    write("course/es/first.ipynb", notebook("#md Entrenamiento", *CODE[1:], indent=4, as_lists=False))
    return tmp_path


@pytest.fixture
def read_afresh(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the rules were asked about."""
    paths: list[str] = []
    plain: Callable[..., object] = check_source

    def heard(source: Source, *given: object, **named: object) -> object:
        paths.append(source.path)
        return plain(source, *given, **named)  # type: ignore[arg-type,unused-ignore] # as it was called

    monkeypatch.setattr(files, "check_source", heard)
    return paths


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def read(*names: str) -> list[ReadFile]:
    reader = reader_of(list(names))
    return [reader.read(name) for name in names]


def alone(name: str) -> ReadFile:
    return reader_of([name]).read(name)


def assert_rests_on_the_same(one: ReadFile, other: ReadFile) -> None:
    assert one.rests_on.asked == other.rests_on.asked
    assert one.rests_on.read == other.rests_on.read
    assert one.rests_on.listed == other.rests_on.listed


COURSE = ("course/de/first.ipynb", "course/es/first.ipynb")


def test_a_copy_in_another_folder_gets_the_answer_that_it_would_get_alone(course: Path, read_afresh: list[str]) -> None:
    first, copy = read(*COURSE)
    assert read_afresh == [COURSE[0]]
    assert_rests_on_the_same(first, alone(COURSE[0]))
    own = alone(COURSE[1])
    assert len(own.reading.reported) >= 3
    assert own.reading.training
    assert {one.finding.location.path for one in copy.reading.reported} == {COURSE[1]}
    assert (copy.reading, copy.suppressions, copy.notes) == (own.reading, own.suppressions, own.notes)
    assert copy.source
    assert own.source
    assert copy.source.file_text == own.source.file_text
    assert set(own.rests_on) <= set(copy.rests_on)
    assert own.rests_on.listed <= copy.rests_on.listed


@pytest.mark.parametrize("depth", ["course/es/more/first.ipynb", "course/first.ipynb"])
def test_a_copy_may_lie_at_another_depth(course: Path, read_afresh: list[str], depth: str) -> None:
    write(depth, notebook(*CODE))
    copy = read(COURSE[0], depth)[1]
    assert read_afresh == [COURSE[0]]
    own = alone(depth)
    assert copy.reading == own.reading
    assert set(own.rests_on) <= set(copy.rests_on)


@pytest.mark.parametrize(
    ("beside", "text"),
    [
        ("course/es/helpers/plots.py", "import torch\n"),
        ("course/es/numpy.py", ""),
        ("course/es/bert/config.json", '{"model_type": "bert"}'),
        ("course/es/requirements.txt", "torch==1.13.1\n"),
        ("course/es/glue/dataset_dict.json", "{}"),
    ],
)
@pytest.mark.parametrize("names", [COURSE, COURSE[::-1]])
def test_what_lies_beside_one_of_them_has_both_read(
    course: Path, read_afresh: list[str], beside: str, text: str, names: tuple[str, str]
) -> None:
    write(beside, text)
    second = read(*names)[1]
    assert read_afresh == list(names)
    assert second.reading == alone(names[1]).reading


@pytest.mark.parametrize(
    ("before", "changed"),
    [
        (CODE, ("#md Training", "%pip install -q transformers==4.40.0", *CODE[2:])),
        ((*CODE, "!ls"), (*CODE, "!rm -r out")),
        (CODE, ("#md One more", *CODE)),
        (("x = 1", "#md Then", "y = 2"), ("x = 1\n# %% cell 3\ny = 2",)),
        (CODE, (*CODE[:-1], CODE[-1].replace("raw[", "tokenized["))),
    ],
    ids=["a version", "a magic", "the number of a cell", "the end of a cell", "a name"],
)
def test_what_differs_in_anything_that_is_read_is_no_copy(
    course: Path, read_afresh: list[str], before: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    write(COURSE[0], notebook(*before))
    write(COURSE[1], notebook(*changed))
    second = read(*COURSE)[1]
    assert read_afresh == list(COURSE)
    assert second.reading == alone(COURSE[1]).reading


@pytest.mark.parametrize("beside", ["course/es/plots.py", "course/plots.py"])
@pytest.mark.parametrize("code", [(), CODE], ids=["nothing else", "training"])
def test_a_relative_import_that_means_a_module_has_both_read(
    course: Path, read_afresh: list[str], beside: str, code: tuple[str, ...]
) -> None:
    write(beside, "from transformers import Trainer\ndef main(data):\n    Trainer(train_dataset=data).train()\n")
    dots = ".." if beside == "course/plots.py" else "."
    for name in COURSE:
        write(name, notebook(f"from {dots}plots import main\nmain(1)", *code))
    second = read(*COURSE)[1]
    assert read_afresh == list(COURSE)
    assert second.reading.reported == alone(COURSE[1]).reading.reported


def test_a_module_that_is_asked_for_twice_is_found_twice(course: Path) -> None:
    code = "from transformers import Trainer\ndef main(data):\n    Trainer(train_dataset=data).train()\nmain(1)\n"
    write("course/es/loop.py", code)
    for name in COURSE:
        write(name, notebook("from loop import main\nmain(1)"))
    second = read(*COURSE)[1]
    assert second.reading.training
    assert second.reading.training == alone(COURSE[1]).reading.training


def _given(reading: Reading, find_targets: Callable[[], TargetVersions]) -> Reading:
    return reading


def test_a_reading_that_failed_is_no_answer_for_others(course: Path) -> None:
    kept = files.Copies(files.QuestionedProject())
    for name in COURSE:
        failed = Reading(crashes=(Crash(name, "seed", "KeyError: 1"),))
        assert kept.reading_of(read_file(name), frozenset(), TargetVersions, partial(_given, failed)) is failed


def test_settings_that_both_reach_are_read_for_each_since_findings_may_be_in_them(
    course: Path, read_afresh: list[str]
) -> None:
    write("course/rates.json", '{"learning_rate": 5.0}')
    cell = 'import json\nrates = json.load(open("../rates.json"))\nTrainingArguments("out", **rates)'
    for name in COURSE:
        write(name, notebook(*CODE, cell))
    copy = read(*COURSE)[1]
    assert read_afresh == list(COURSE)
    assert copy.reading == alone(COURSE[1]).reading


def test_a_file_of_the_same_name_beside_each_is_another_one(course: Path, read_afresh: list[str]) -> None:
    cell = 'import json\nrates = json.load(open("rates.json"))\nTrainingArguments("out", **rates)'
    for name, rate in zip(COURSE, (5.0, 5e-5), strict=True):
        write(name, notebook(*CODE, cell))
        write(f"{Path(name).parent}/rates.json", f'{{"learning_rate": {rate}}}')
    second = read(*COURSE)[1]
    assert read_afresh == list(COURSE)
    assert second.reading == alone(COURSE[1]).reading


def test_all_notebooks_made_of_the_fixtures_get_their_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripts = sorted((ROOT / "fixtures" / "course").glob("*.py"))
    names = [f"{folder}/{script.stem}.ipynb" for script in scripts for folder in ("de", "es")]
    for name in names:
        code = (ROOT / "fixtures" / "course" / f"{Path(name).stem}.py").read_text()
        write(name, notebook(*code.split("\n\n\n")))
    given = read(*names)
    monkeypatch.setattr(files.Copies, "_holds_for", never)
    assert [file.reading for file in given] == [file.reading for file in read(*names)]


def never(*_given: object) -> bool:
    return False


def test_what_a_script_after_a_notebook_rests_on_is_noted_whole(course: Path) -> None:
    write("course/train.py", "\n".join(CODE[2:]))
    assert_rests_on_the_same(read(*COURSE, "course/train.py")[-1], alone("course/train.py"))


def test_scripts_and_what_an_editor_holds_are_read_by_themselves(
    course: Path, monkeypatch: pytest.MonkeyPatch, read_afresh: list[str]
) -> None:
    script = "\n".join(CODE[2:])
    for name in ("a/train.py", "b/train.py"):
        write(name, script)
    read("a/train.py", "b/train.py")
    assert read_afresh == ["a/train.py", "b/train.py"]
    plain = reader_of(list(COURSE)).request
    given = {COURSE[0]: Path(COURSE[0]).read_bytes()}
    reader = FileReader(replace(plain, given=given))
    for name in COURSE:
        reader.read(name)
    assert read_afresh[2:] == list(COURSE)
