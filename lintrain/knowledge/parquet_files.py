"""The content of a Parquet file: its columns from its schema, and the label values of a small file.

Such files are read with pyarrow, which is not a dependency of lintrain: it is loaded if it is installed and if a script
names an existing file. Without it, nothing is known about the file.

The decompressed size of a Parquet column, from the headers of its pages, before any is decompressed.

The sizes in the file's metadata cannot be trusted. A reader allocates and fills what the header of each page says, so
these sizes are added up here. The headers are in the compact protocol of Thrift. A header in any other form than
writers of such files produce is rejected, and its column is not read.
"""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from lintrain.cache.noted import note
from lintrain.knowledge.data_files import LABELS, MOST_ROWS, Peek, as_object, facts_of_peek
from lintrain.knowledge.dataset_facts import columns_of_info
from lintrain.knowledge.tables import ColumnFacts, DatasetFacts

LARGEST = 64 * 1024 * 1024
"""The largest file that is read, in bytes: the schema is at the end, so the file cannot be read in part."""
LARGEST_END = 512 * 1024
"""Bytes of the metadata, all of which are read: three of them may take 700 in memory."""
ENDING = 8
"""Bytes at the end of a file: the length of the metadata before them, and the name of the format."""
MOST_COLUMNS = 1000
MOST_GROUPS = 100

SAFE_VERSION = 15
"""Versions of pyarrow before 14.0.1 could run code from a file (CVE-2023-47248)."""


def parquet_facts(path: Path, shown_as: str) -> DatasetFacts | None:
    """The content of a Parquet file; None if it is missing, has another format, or pyarrow is not installed."""
    note(path)
    try:
        if not 0 < path.stat().st_size <= LARGEST:
            return None
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        if int(str(pyarrow.__version__).partition(".")[0]) < SAFE_VERSION:
            return None
        with path.open("rb") as file:
            return _facts(parquet.ParquetFile(file), file, shown_as) if _has_small_end(file) else None
    except Exception:  # noqa: BLE001 - a damaged file fails in ways of its own, also in other versions of the library
        return None


def _has_small_end(file: BinaryIO) -> bool:
    """Whether the metadata have the size of a file with a reasonable number of columns: all of them are read."""
    file.seek(-ENDING, os.SEEK_END)
    return int.from_bytes(file.read(ENDING)[:4], "little") <= LARGEST_END


def _facts(parquet: Any, file: BinaryIO, shown_as: str) -> DatasetFacts | None:  # Any: pyarrow has no types
    """Columns whose names begin with `__` are the index of a frame, which is read in a different way."""
    schema, rows = parquet.schema_arrow, int(parquet.metadata.num_rows)
    names: list[str] = list(schema.names)
    if len(names) > MOST_COLUMNS or len(set(names)) < len(names) or any(name.startswith("__") for name in names):
        return None
    whole = _whole(parquet.metadata)
    columns = {name: ColumnFacts(name, _kind(str(schema.field(name).type), name in whole)) for name in names}
    labels = [name for name in names if name in LABELS and columns[name].kind == "integer"]
    is_small = 0 < rows <= MOST_ROWS and unfolds_within_bounds(file, parquet.metadata, frozenset(labels))
    seen = _labels(parquet, labels, rows, shown_as) if labels and is_small else None
    columns.update(seen.columns if seen else {})
    columns.update(_described(schema))
    source = f"the schema of {shown_as}"
    sorted_by = seen.sorted_by if seen else None
    return DatasetFacts(columns, {"train": rows}, sorted_by, source=seen.source if seen else source)


def _whole(metadata: Any) -> set[str]:
    """The columns without missing values: some libraries read integers with missing values as floats."""
    groups = range(min(metadata.num_row_groups, MOST_GROUPS + 1))
    if len(groups) > MOST_GROUPS or metadata.num_columns > MOST_COLUMNS:
        return set()
    parts = [metadata.row_group(group).column(index) for group in groups for index in range(metadata.num_columns)]
    gaps = {part.path_in_schema for part in parts if not _is_full(part.statistics)}
    return {part.path_in_schema for part in parts} - gaps


def _is_full(statistics: Any) -> bool:
    return statistics is not None and statistics.has_null_count and statistics.null_count == 0


def _kind(arrow: str, is_whole: bool) -> str:
    """The kind of the values of an Arrow type."""
    if arrow in {"string", "large_string", "string_view"}:
        return "text"
    if re.fullmatch(r"u?int\d+", arrow):
        return "integer" if is_whole else "unknown"
    if arrow in {"halffloat", "float", "double"}:
        return "float"
    return "list" if re.match(r"(large_|fixed_size_)?list(_view)?<", arrow) else "unknown"


def _labels(parquet: Any, names: list[str], rows: int, shown_as: str) -> DatasetFacts | None:
    """The label columns of all rows, read in batches to limit memory."""
    found: list[dict[str, object]] = []
    for batch in parquet.iter_batches(batch_size=MOST_ROWS, columns=names):
        found += batch.to_pylist()
        if len(found) > MOST_ROWS:
            return None
    return facts_of_peek(Peek([*found], len(found) == rows, is_csv=False), shown_as)


def _described(schema: Any) -> dict[str, ColumnFacts]:
    """The columns that the library `datasets` described when it wrote the file: class labels with their names."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    content = as_object(json.loads(metadata.get(b"huggingface", b"{}"))) or {}
    known = columns_of_info(as_object(content.get("info")) or {})
    return {name: column for name, column in known.items() if name in schema.names and column.kind != "unknown"}


MOST_UNFOLDED = 16 * 1024 * 1024
"""Bytes of all pages of the columns that are read: labels of 20,000 rows take a hundredth of it."""
MOST_PAGES = 10_000
DEEPEST = 8

PADDING = 100
"""Bytes after a column that readers include: some old writers did not count their last header (PARQUET-816)."""

BOOLEANS, INTEGERS, BINARY, STRUCT = (1, 2), (4, 5, 6), 8, 12
"""Field types of the compact protocol; the header of a page contains no others."""
SHORT_I32 = 0x15
"""The first byte of a field that follows the one before it and holds an integer of 32 bits."""


class OddHeaderError(Exception):
    """Bytes that are not a page header as writers of Parquet files produce it."""


def unfolds_within_bounds(file: BinaryIO, metadata: Any, names: frozenset[str]) -> bool:  # Any: pyarrow has no types
    """Whether all pages of these columns together stay within the limit when they are decompressed."""
    left, pages = MOST_UNFOLDED, MOST_PAGES
    try:
        for group in range(metadata.num_row_groups):
            for chunk in map(metadata.row_group(group).column, range(metadata.num_columns)):
                if chunk.path_in_schema.partition(".")[0] in names:
                    sizes = page_sizes(_content(file, chunk), int(chunk.total_compressed_size))
                    left, pages = left - sum(sizes), pages - len(sizes)
                    if left < 0 or pages < 0:
                        return False
    except OddHeaderError:
        return False
    return True


def _content(file: BinaryIO, chunk: Any) -> bytes:
    """The bytes of a column in one row group, from where a reader begins."""
    start, size = int(chunk.data_page_offset), int(chunk.total_compressed_size)
    if chunk.has_dictionary_page and 0 < int(chunk.dictionary_page_offset) < start:
        start = int(chunk.dictionary_page_offset)
    if start < 0 or not 0 <= size <= MOST_UNFOLDED:
        raise OddHeaderError
    file.seek(start)
    return file.read(size + PADDING)


def page_sizes(content: bytes, length: int) -> list[int]:
    """The decompressed sizes of the pages of a column; raises OddHeaderError."""
    stream, sizes = BytesIO(content), list[int]()
    while stream.tell() < length:
        _, unfolded, folded = (_leading_integer(stream) for _ in range(3))
        _skip_fields(stream, DEEPEST)
        if unfolded < 0 or folded < 0 or len(sizes) == MOST_PAGES:
            raise OddHeaderError
        sizes.append(unfolded)
        stream.seek(folded, 1)
    return sizes


def _leading_integer(stream: BytesIO) -> int:
    """The next of the fields that every header begins with: type, decompressed size, compressed size."""
    if _byte(stream) != SHORT_I32:
        raise OddHeaderError
    folded = _integer(stream)
    return folded >> 1 if folded % 2 == 0 else -(folded >> 1) - 1


def _skip_fields(stream: BytesIO, depth: int) -> None:
    """Skip the fields up to the end of a structure; their numbers must be in order."""
    while sign := _byte(stream):
        if sign >> 4 == 0:
            raise OddHeaderError
        _skip(stream, sign & 15, depth)


def _skip(stream: BytesIO, kind: int, depth: int) -> None:
    if kind in INTEGERS:
        _integer(stream)
    elif kind == BINARY:
        stream.seek(_integer(stream), 1)
    elif kind == STRUCT and depth:
        _skip_fields(stream, depth - 1)
    elif kind not in BOOLEANS:  # their value is in the type byte
        raise OddHeaderError


def _integer(stream: BytesIO) -> int:
    """An integer of variable length, of 32 or 64 bits."""
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise OddHeaderError


def _byte(stream: BytesIO) -> int:
    found = stream.read(1)
    if not found:
        raise OddHeaderError
    return found[0]
