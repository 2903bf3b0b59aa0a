"""Datasets that give one row at a time: what a few of their rows show."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lintrain.evidence.run import ColumnEvidence
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.arrow import MOST_VALUES, TOKEN_COLUMNS
from lintrain.runtime.measure.lengths import binned, quantiles
from lintrain.runtime.measure.subset import chosen_rows, first_rows, has_rows

SAMPLED = 32
READ = 2_000
READ_SECONDS = 1.5


def sample_rows(dataset: Any) -> list[Any]:
    """A few rows as the dataset gives them, from all over it where it has a length."""
    if not has_rows(dataset):
        return first_rows(dataset, SAMPLED)
    return [dataset[row] for row in chosen_rows(dataset, len(dataset), SAMPLED)]


def row_columns(dataset: Any, rows: list[Any]) -> list[ColumnEvidence]:
    """The keys of the rows as columns; scalar integers are read on more rows, within a second or two."""
    first = rows[0] if rows else None
    if not is_mapping(first):
        return []
    read = list(_read(dataset, rows))
    return [_column(str(name), [row[name] for row in read if name in row]) for name in first]


def _read(dataset: Any, rows: list[Any]) -> Iterator[Any]:
    if not has_rows(dataset):
        yield from rows
        return
    end = time.perf_counter() + READ_SECONDS
    for row in spread(len(dataset), READ):
        yield dataset[row]
        if time.perf_counter() > end:
            return


def _column(name: str, values: list[Any]) -> ColumnEvidence:
    numpy = library("numpy")
    first = values[0]
    if isinstance(first, str):
        return ColumnEvidence(name, "text", "string", rows_read=len(values))
    try:
        arrays = [numpy.asarray(value) for value in values]
    except (TypeError, ValueError, RuntimeError):  # no numbers: images, nested structures, tensors on a device
        return ColumnEvidence(name, type(first).__name__, type(first).__name__, rows_read=len(values))
    if arrays[0].dtype.kind not in "biuf":
        return ColumnEvidence(name, type(first).__name__.lower(), str(arrays[0].dtype), rows_read=len(values))
    return _numbers(name, arrays)


def _numbers(name: str, arrays: list[Any]) -> ColumnEvidence:
    numpy = library("numpy")
    flat = numpy.concatenate([array.reshape(-1) for array in arrays])
    finite = flat[numpy.isfinite(flat)]
    is_scalar = arrays[0].ndim == 0
    is_integer = flat.dtype.kind in "biu"
    lengths = [] if is_scalar else [len(array) for array in arrays]
    return ColumnEvidence(
        name,
        _kind(name, is_scalar, is_integer),
        str(arrays[0].dtype),
        minimum=float(finite.min()) if finite.size else None,
        maximum=float(finite.max()) if finite.size else None,
        counts=_counts(flat.tolist()) if is_integer and name not in TOKEN_COLUMNS else (),
        lengths=quantiles(lengths),
        length_bins=binned(lengths),
        rows_read=len(arrays),
        non_finite=int(flat.size - finite.size),
    )


def _kind(name: str, is_scalar: bool, is_integer: bool) -> str:
    if is_scalar:
        return "integer" if is_integer else "number"
    if name in TOKEN_COLUMNS[:2]:
        return "token ids"
    return "lists of integer" if is_integer else "lists of number"


def _counts(values: Iterable[int]) -> tuple[tuple[int, int], ...]:
    counted = Counter(int(value) for value in values)
    return tuple(sorted(counted.items())) if len(counted) <= MOST_VALUES else ()
