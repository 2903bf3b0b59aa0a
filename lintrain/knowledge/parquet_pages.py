"""The decompressed size of a Parquet column, from the headers of its pages before any is decompressed.

The sizes in the file's metadata are claims. What a reader of such files allocates and fills is what the header in front
of each page says, so these are added up here, in the compact protocol of Thrift that they are written in. A header that
is written otherwise than writers of such files do is not understood, and a column that holds one is not read.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, BinaryIO

MOST_UNFOLDED = 16 * 1024 * 1024
"""Bytes of all pages of the columns that are read: labels of 20,000 rows take a hundredth of it."""
MOST_PAGES = 10_000
DEEPEST = 8

PADDING = 100
"""Bytes behind a column that readers take along: some old writers did not count their last header (PARQUET-816)."""

BOOLEANS, INTEGERS, BINARY, STRUCT = (1, 2), (4, 5, 6), 8, 12
"""Kinds of fields in the compact protocol; no header of a page holds any other."""
SHORT_I32 = 0x15
"""The first sign of a field that follows the one before it and holds an integer of 32 bits."""


class OddHeaderError(Exception):
    """Bytes that are no header of a page, as writers of Parquet files make them."""


def unfolds_within_bounds(file: BinaryIO, metadata: Any, names: frozenset[str]) -> bool:  # Any: pyarrow has no types
    """Whether all pages of these columns together stay within the bound once they are decompressed."""
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
    """The bytes of a column of one group of rows, from where a reader begins."""
    start, size = int(chunk.data_page_offset), int(chunk.total_compressed_size)
    if chunk.has_dictionary_page and 0 < int(chunk.dictionary_page_offset) < start:
        start = int(chunk.dictionary_page_offset)
    if start < 0 or not 0 <= size <= MOST_UNFOLDED:
        raise OddHeaderError
    file.seek(start)
    return file.read(size + PADDING)


def page_sizes(content: bytes, length: int) -> list[int]:
    """The sizes of the pages of a column once they are decompressed; raises OddHeaderError."""
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
    """The next of the fields that every header begins with: kind, size decompressed, size as it is."""
    if _byte(stream) != SHORT_I32:
        raise OddHeaderError
    folded = _integer(stream)
    return folded >> 1 if folded % 2 == 0 else -(folded >> 1) - 1


def _skip_fields(stream: BytesIO, depth: int) -> None:
    """Leave out the fields up to the end of a structure, which must have numbers in order."""
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
    elif kind not in BOOLEANS:  # which are in the sign itself
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
