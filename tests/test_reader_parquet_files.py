"""What the reader takes from Parquet files: all of it with pyarrow, nothing without."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lintrain.knowledge import parquet_files
from lintrain.knowledge.parquet_files import parquet_facts
from lintrain.pipeline.values.data import Dataset
from tests.test_reader_data_files import HEAD, kinds
from tests.test_reader_files import value_in

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = {"text": ["good", "bad"] * 50, "label": [0] * 50 + [1] * 50, "score": [0.5] * 100, "ids": [[1]] * 100}
    parquet.write_table(pyarrow.table(rows), tmp_path / "r.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        "x = load_dataset('parquet', data_files='r.parquet', split='train')",
        "x = load_dataset('parquet', data_files={'test': 'r.parquet'})['test']",
        "x = Dataset.from_parquet('r.parquet')",
    ],
)
def test_a_file_tells_its_columns_classes_and_order(folder: Path, code: str) -> None:
    value = value_in(folder, HEAD + code)
    assert kinds(value) == {"text": "text", "label": "integer", "score": "float", "ids": "list"}
    assert isinstance(value, Dataset)
    assert value.label is not None
    assert (value.is_complete, value.rows, value.label.num_classes) == (True, 100, 2)
    assert value.label.source == "all 100 rows of r.parquet"


def test_the_order_of_the_classes_is_known(folder: Path) -> None:
    value = value_in(folder, f"{HEAD}x = load_dataset('parquet', data_files='r.parquet', split='train')")
    assert isinstance(value, Dataset)
    assert value.sorted_by == "label"


def test_class_names_that_datasets_wrote_are_known(tmp_path: Path) -> None:
    described = '{"info": {"features": {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}'
    table = pyarrow.table({"label": [0, 1] * 30}).replace_schema_metadata({"huggingface": described})
    parquet.write_table(table, tmp_path / "f")
    facts = parquet_facts(tmp_path / "f", "f")
    assert facts is not None
    assert facts.columns["label"].class_names == ("neg", "pos")


def test_whole_numbers_with_gaps_may_be_read_as_floats(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"a": [1, None], "b": [1, 2]}), tmp_path / "f")
    facts = parquet_facts(tmp_path / "f", "f")
    assert facts is not None
    assert {name: column.kind for name, column in facts.columns.items()} == {"a": "unknown", "b": "integer"}


def test_of_many_rows_the_schema_alone_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "MOST_ROWS", 99)
    facts = parquet_facts(folder / "r.parquet", "r")
    assert facts is not None
    assert (facts.columns["label"].num_classes, facts.sorted_by, facts.source) == (None, None, "the schema of r")


def test_a_large_file_is_not_looked_into(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "LARGEST", 100)
    assert parquet_facts(folder / "r.parquet", "r") is None


def test_a_version_that_may_run_what_a_file_brings_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyarrow, "__version__", "14.0.0")
    assert parquet_facts(folder / "r.parquet", "r") is None


def test_the_index_of_a_frame_is_no_column(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"__index_level_0__": [1], "a": [1]}), tmp_path / "f")
    assert parquet_facts(tmp_path / "f", "f") is None


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 99 + b"PAR1", b"text,label\n"])
def test_a_damaged_file_is_not_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    assert parquet_facts(tmp_path / "f", "f") is None


def test_without_pyarrow_nothing_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    value = value_in(folder, f"{HEAD}x = load_dataset('parquet', data_files='r.parquet', split='train')")
    assert kinds(value) is None


def test_a_file_that_is_not_there_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def note(name: str) -> ModuleType:
        loaded.append(name)
        return importlib.import_module(name)

    monkeypatch.setattr(parquet_files, "import_module", note)
    value_in(tmp_path, f"{HEAD}x = load_dataset('parquet', data_files='r.parquet', split='train')")
    assert loaded == []
