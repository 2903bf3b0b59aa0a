"""Rows that stand for a whole dataset: some of every label, and for each row of the whole the one that stands in."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.startup.lazy_dataclass import dataclass

LABEL_NAMES = frozenset(
    {"label", "labels", "label_ids", "target", "targets", "class", "y", "gold", "gold_label", "answer"}
)
MOST_LABELS = 512


@dataclass(frozen=True)
class Sampling:
    """`rows`: the row numbers worked on; `stand_ins`: for each row of the whole the index into `rows` of its own."""

    rows: list[int]
    stand_ins: Any


def is_label(dataset: Any, name: str) -> bool:
    """Whether a column holds classes: by its feature, or by its name and a type that can."""
    feature = dataset.features.get(name)
    kind = type(feature).__name__
    if kind == "ClassLabel":
        return True
    dtype = str(getattr(feature, "dtype", ""))
    return kind == "Value" and name.lower() in LABEL_NAMES and dtype.startswith(("int", "uint", "bool", "string"))


def spread(rows: int, wanted: int) -> list[int]:
    """At most `wanted` row numbers, one from each of as many stretches (evenly spaced ones would meet a period)."""
    if rows <= wanted:
        return list(range(rows))
    draw = random.Random(0)  # its own generator: the script's random state is not touched
    edges = [row * rows // wanted for row in range(wanted + 1)]
    return [draw.randrange(first, last) for first, last in pairwise(edges)]


def sample_by_label(dataset: Any, wanted: int) -> Sampling | None:
    """A sample with at least one row of every combination of labels; None if there are too many for a sample."""
    numpy = library("numpy")
    codes = _codes(dataset)
    if codes is None:
        rows = spread(len(dataset), wanted)
        return Sampling(rows, numpy.resize(numpy.arange(len(rows)), len(dataset)))
    values, first = numpy.unique(codes, return_index=True)
    if len(values) > MOST_LABELS:
        return None
    # One row of each label in any case: a label that is missing from the sample would change the number of classes.
    rows = sorted({*spread(len(dataset), wanted), *map(int, first)})
    stand_ins = numpy.empty(len(dataset), dtype=numpy.int64)
    worked = codes[rows]
    for value in values:
        locations = numpy.flatnonzero(codes == value)
        stand_ins[locations] = numpy.resize(numpy.flatnonzero(worked == value), len(locations))
    return Sampling(rows, stand_ins)


def one_of_every_label(dataset: Any) -> list[int]:
    """The first row of every combination of labels; empty without label columns."""
    codes = _codes(dataset)
    return [] if codes is None else [int(row) for row in library("numpy").unique(codes, return_index=True)[1]]


def _codes(dataset: Any) -> Any | None:
    """One number for each row that says its labels: equal numbers for equal labels; None without label columns."""
    numpy = library("numpy")
    codes = None
    for name in dataset.column_names:
        if is_label(dataset, name):
            own = _column_codes(dataset, name)
            codes = own if codes is None else codes * (int(own.max(initial=0)) + 1) + own
            codes = numpy.unique(codes, return_inverse=True)[1]
    return codes


def _column_codes(dataset: Any, name: str) -> Any:
    compute, numpy = library("pyarrow.compute"), library("numpy")
    column = dataset.data.column(name)
    if dataset._indices is not None:
        column = column.take(dataset._indices.column(0))
    encoded = compute.dictionary_encode(column, null_encoding="encode").combine_chunks()
    return numpy.asarray(encoded.indices.to_numpy(zero_copy_only=False))
