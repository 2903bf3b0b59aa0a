"""How far a Parquet file unfolds in memory: told by what its pages say, whatever its metadata claim."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.knowledge import parquet_files
from lintrain.knowledge.parquet_files import OddHeaderError, page_sizes, parquet_facts
from tests.support.probing import ROOT
from tests.trapped.bombs import signed, write_empty_parts

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS, CLAIMED = 4_000_000, 100
SCHEMA = "the schema of f"
HEADER = b"\x15\x00\x15\x50\x15\x08\x2c\x15\x0a\x15\x00\x15\x06\x15\x06\x00\x00"
"""A page of four bytes that becomes forty, with one structure about its values."""


def write_bomb(path: Path) -> None:
    """A file of some kilobytes with a page of 32 MB, which calls itself one of 100 rows."""
    label = pyarrow.repeat(pyarrow.scalar(0, pyarrow.int64()), ROWS)
    wide = (
        {"max_rows_per_page": ROWS} if "max_rows_per_page" in inspect.signature(parquet.write_table).parameters else {}
    )
    table = pyarrow.table({"label": label})
    parquet.write_table(
        table, path, compression="zstd", use_dictionary=False, row_group_size=ROWS, data_page_size=8 * ROWS, **wide
    )
    raw = path.read_bytes()
    end = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    path.write_bytes(raw[:end] + raw[end:].replace(signed(ROWS, 4), signed(CLAIMED, 4)))
    assert path.stat().st_size < 10_000
    assert parquet.read_metadata(path).num_rows == CLAIMED


def what_was_read(path: Path) -> str:
    facts = parquet_facts(path, "f")
    assert facts is not None
    return facts.source


def test_a_column_that_unfolds_beyond_its_claims_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bomb(tmp_path / "f")
    assert what_was_read(tmp_path / "f") == SCHEMA
    monkeypatch.setattr(parquet_files, "MOST_UNFOLDED", 1 << 40)
    assert what_was_read(tmp_path / "f") == "all 100 rows of f"


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "rest", [{}, {"use_dictionary": False}, {"write_page_checksum": True, "write_page_index": True}]
)
def test_what_writers_make_is_read(tmp_path: Path, compression: str, version: str, rest: dict[str, bool]) -> None:
    rows = {"text": ["a"] * 9000, "label": [0, 1, 2] * 3000}
    how = {"compression": compression, "data_page_version": version, "row_group_size": 4000, "data_page_size": 500}
    parquet.write_table(pyarrow.table(rows), tmp_path / "f", **how, **rest)
    assert what_was_read(tmp_path / "f") == "all 9000 rows of f"


def test_the_pages_of_all_groups_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pyarrow.table({"label": [0, 1] * 5000})
    parquet.write_table(table, tmp_path / "f", row_group_size=1000, use_dictionary=False)
    monkeypatch.setattr(parquet_files, "MOST_UNFOLDED", 81_000)
    assert what_was_read(tmp_path / "f") == "all 10000 rows of f"
    monkeypatch.setattr(parquet_files, "MOST_UNFOLDED", 79_000)
    assert what_was_read(tmp_path / "f") == SCHEMA


def test_a_column_of_many_pages_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pyarrow.table({"label": [0, 1] * 500}), tmp_path / "f", row_group_size=100)
    monkeypatch.setattr(parquet_files, "MOST_PAGES", 19)
    assert what_was_read(tmp_path / "f") == SCHEMA
    monkeypatch.setattr(parquet_files, "MOST_PAGES", 20)
    assert what_was_read(tmp_path / "f") == "all 1000 rows of f"


def test_a_file_with_much_about_itself_is_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(pyarrow.table({"label": [0, 1]}), tmp_path / "f")
    monkeypatch.setattr(parquet_files, "LARGEST_END", 100)
    assert parquet_facts(tmp_path / "f", "f") is None


GROWTH = """
import sys
from pathlib import Path
import pyarrow.parquet
from lintrain.knowledge.parquet_files import parquet_facts
from tests.support.peak import peak_memory
before = peak_memory()
facts = parquet_facts(Path(sys.argv[1]), "f")
print(facts is None, (peak_memory() - before) // 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in kilobytes")
@pytest.mark.parametrize(("size", "is_left"), [(8_000_000, True), (parquet_files.LARGEST_END, False)])
def test_metadata_that_hold_nothing_take_little_memory(tmp_path: Path, size: int, *, is_left: bool) -> None:
    write_empty_parts(tmp_path / "f", size)
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path / "f")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    left, grown = done.stdout.split()
    assert left == str(is_left)
    assert int(grown) < 200


def test_pages_are_as_large_as_their_headers_say() -> None:
    content = (HEADER + b"...." + HEADER + b"....") + b"behind the column"
    assert page_sizes(content, 2 * len(HEADER) + 8) == [40, 40]


@pytest.mark.parametrize(
    "content",
    [
        HEADER[:-1],
        b"\x25" + HEADER[1:] + b"....",
        b"\x15\x00\x15\x4f\x15\x08\x00",
        b"\x15\x00\x15\x50\x15\x07\x00",
        b"\x15\x00\x15\x50\x15\x08\x05\x02\x00\x00",
        b"\x15\x00\x15\x50\x15\x08\x19\x15\x00\x00",
        b"\x15\x00\x15\xfe" + b"\xff" * 10 + b"\x00\x15\x08\x00....",
        b"\x15\x00\x15\x50\x15\x08" + b"\x1c" * 100 + b"\x00" * 101 + b"....",
    ],
    ids=["cut", "numbered", "negative", "backwards", "field 2 again", "list", "endless integer", "deep"],
)
def test_a_header_that_no_writer_makes_is_not_understood(content: bytes) -> None:
    with pytest.raises(OddHeaderError):
        page_sizes(content, len(content))
