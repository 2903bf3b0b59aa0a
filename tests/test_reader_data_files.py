"""What the reader takes from CSV and JSON files of data: columns, labels and their order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.knowledge import data_files
from lintrain.knowledge.data_files import file_facts
from lintrain.pipeline.values.data import Dataset, DatasetDict
from tests.test_reader_files import value_in

HEAD = "import pandas as pd\nfrom datasets import Dataset, DatasetDict, load_dataset\n"
TEXT, SORTED = 'text,label\ngood,pos\n"bad, very",neg\n', "text,label\n" + "a,0\n" * 50 + "b,1\n" * 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r.csv").write_text(TEXT)
    (tmp_path / "r.tsv").write_text(TEXT.replace(",", "\t"))
    (tmp_path / "r.jsonl").write_text('{"text": "good", "label": "pos"}\n{"text": "bad", "label": "neg"}\n')
    (tmp_path / "r.json").write_text('[{"text": "good", "label": "pos"}]')
    (tmp_path / "s.csv").write_text(SORTED)
    return tmp_path


def kinds(value: object) -> dict[str, str] | None:
    assert isinstance(value, Dataset)
    return {name: str(column.kind) for name, column in value.columns.items()} if value.columns else None


@pytest.mark.parametrize(
    "code",
    [
        "x = load_dataset('csv', data_files='r.csv', split='train')",
        "x = load_dataset('csv', data_files='r.csv')['train']",
        "x = load_dataset('csv', data_files={'train': 'r.csv', 'test': 's.csv'})['test']",
        "x = load_dataset('csv', data_files=['r.tsv'], delimiter='\\t', split='train')",
        "x = load_dataset('json', data_files='r.jsonl', split='train')",
        "x = load_dataset('json', data_files='r.json', split='train')",
        "x = Dataset.from_csv('r.csv')",
        "x = Dataset.from_json('r.jsonl')",
        "x = Dataset.from_pandas(pd.read_csv('r.csv'))",
    ],
)
def test_a_file_with_a_literal_path_tells_its_columns(folder: Path, code: str) -> None:
    (folder / "s.csv").write_text(TEXT)
    assert kinds(value_in(folder, HEAD + code)) == {"text": "text", "label": "text"}


@pytest.mark.parametrize(
    "code",
    [
        "x = load_dataset('csv', data_files='missing.csv', split='train')",
        "x = load_dataset('csv', data_files=name(), split='train')",
        "x = load_dataset('csv', data_files='r.csv', split='train', column_names=['a', 'b'])",
        "x = load_dataset('csv', data_files=['r.csv', 's.csv'], split='train')",
        "x = load_dataset('csv', data_files={'train': 'r.csv', 'test': 's.csv'})['train']",
        "x = load_dataset('json', data_files='r.json', field='rows', split='train')",
        "open('r.csv', 'w').write(name())\nx = load_dataset('csv', data_files='r.csv', split='train')",
        "df = pd.read_csv('r.csv'); clean(df); x = Dataset.from_pandas(df)",
        "x = Dataset.from_pandas(pd.read_csv('r.csv', names=['a', 'b']))",
    ],
)
def test_what_may_be_read_otherwise_is_not_known(folder: Path, code: str) -> None:
    assert kinds(value_in(folder, HEAD + code)) is None


TYPES = "{'text': Value('string'), 'label': ClassLabel(names=['no', 'yes', 'perhaps'])}"


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (f"Features({TYPES})", {"text": "text", "label": "class label"}),
        ("types_of(name)", None),
        ("None", None),
    ],
)
def test_features_give_the_types_of_files_that_are_not_there(
    folder: Path, features: str, expected: dict[str, str] | None
) -> None:
    head = f"{HEAD}from datasets import ClassLabel, Features, Value\n"
    code = f"x = load_dataset('csv', data_files='missing.csv', split='train', features={features})"
    assert kinds(value_in(folder, head + code)) == expected


def test_the_rows_classes_and_order_of_a_whole_file_are_known(folder: Path) -> None:
    value = value_in(folder, f"{HEAD}x = load_dataset('csv', data_files='s.csv')")
    assert isinstance(value, DatasetDict)
    train = value.splits["train"]
    assert train.label is not None
    assert (train.rows, train.sorted_by, train.label.num_classes) == (100, "label", 2)
    assert train.label.source == "all 100 rows of s.csv"


def facts_of(tmp_path: Path, text: str, separator: str | None = ",") -> dict[str, tuple[str, int | None]]:
    (tmp_path / "f").write_text(text)
    facts = file_facts(tmp_path / "f", "f", separator)
    return {name: (column.kind, column.num_classes) for name, column in facts.columns.items()} if facts else {}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ("1 2 3", "integer"),
        ("1 2.5", "float"),
        ("1 NaN", "float"),
        ("1 two", "text"),
        ("True False", "unknown"),
        ("True maybe", "text"),
        ("nan null", "unknown"),
    ],
)
def test_a_column_of_csv_is_what_pandas_makes_of_its_cells(tmp_path: Path, cells: str, kind: str) -> None:
    assert facts_of(tmp_path, "\n".join(["a", *cells.split()])) == {"a": (kind, None)}


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0, 1, 2] * 30, 3),
        ([0, 1] * 30, None),  # two may be some of more
        ([0, 1, 2, 3] * 3, None),
        ([1, 2, 3] * 30, None),
        ([0] * 50 + [1] * 50, 2),
    ],
)
def test_the_values_of_labels_are_classes_where_they_are_no_accident(
    tmp_path: Path, values: list[int], classes: int | None
) -> None:
    rows = "\n".join(json.dumps({"label": value}) for value in values)
    assert facts_of(tmp_path, rows, None) == {"label": ("integer", classes)}


def test_classes_of_unlike_sizes_in_order_are_not_called_sorted(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("label\n" + "0\n" * 10 + "1\n" * 90)
    facts = file_facts(tmp_path / "f", "f", ",")
    assert facts is not None
    assert facts.sorted_by is None


def test_of_a_long_file_the_start_is_read_and_only_text_is_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MOST_BYTES", 40)
    (tmp_path / "f").write_text("a,b\n" + "x,1\n" * 50)
    facts = file_facts(tmp_path / "f", "f", ",")
    assert facts is not None
    assert {name: column.kind for name, column in facts.columns.items()} == {"a": "text", "b": "unknown"}
    assert (facts.splits, facts.source) == ({}, "the first 8 rows of f")


@pytest.mark.parametrize("text", ["", "{", "[1]", "a,a\n1,2", "a\n1,2", '{"a": 1}\n3', "\x00\x01"])
@pytest.mark.parametrize("separator", [",", None])
def test_a_file_that_is_no_table_is_not_known_or_read_without_an_error(
    tmp_path: Path, text: str, separator: str | None
) -> None:
    (tmp_path / "f").write_text(text)
    file_facts(tmp_path / "f", "f", separator)
    assert facts_of(tmp_path, "a,a\n1,2") == {}
