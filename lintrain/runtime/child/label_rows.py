"""A sample of a data set: some rows of every label, and for each row of the whole set the row that represents it.

Rows with the same texts and different labels, counted when the script maps them: before anything cuts them.
"""

from __future__ import annotations

import functools
import random
from itertools import pairwise
from typing import Any

from lintrain.evidence.run import LabelConflicts
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.startup.lazy_dataclass import dataclass

LABEL_NAMES = frozenset(
    {"label", "labels", "label_ids", "target", "targets", "class", "y", "gold", "gold_label", "answer"}
)
TAG_NAMES = LABEL_NAMES | {"tags", "ner_tags", "pos_tags"}
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
    dtype = str(attribute(feature, "dtype", ""))
    # A float column named `label` is a regression target: each value is a label of its own, and a sample
    # with all is no sample.
    return kind == "Value" and name.lower() in LABEL_NAMES and dtype.startswith(("int", "uint", "bool", "string"))


def spread(rows: int, wanted: int) -> list[int]:
    """At most `wanted` row numbers, one from each of as many stretches (evenly spaced ones would meet a period)."""
    if rows <= wanted:
        return list(range(rows))
    # Data sorted in a period (`[0, 1, 2, 0, 1, 2]` with a step of 3) would give rows of one class only.
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
    # With a row of each, the "sample" of a data set with 5,000 classes would be most of it.
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
            # Mixed radix: labels (1, 2) with 5 values in the second column become 7. The numbers are made dense after
            # each column, so no product of many columns overflows.
            codes = own if codes is None else codes * (int(own.max(initial=0)) + 1) + own
            codes = numpy.unique(codes, return_inverse=True)[1]
    return codes


def _column_codes(dataset: Any, name: str) -> Any:
    compute, numpy = library("pyarrow.compute"), library("numpy")
    column = dataset.data.column(name)
    # After `shuffle` or `select`, the table still has its first order and all its rows; the indices
    # are what the script sees.
    if dataset._indices is not None:
        column = column.take(dataset._indices.column(0))
    # Without a code of its own a missing label would be null, and NumPy would turn all codes into floats with NaN.
    encoded = compute.dictionary_encode(column, null_encoding="encode").combine_chunks()
    return numpy.asarray(encoded.indices.to_numpy(zero_copy_only=False))


MOST_ROWS = 200_000
"""Of longer datasets so many rows are compared, the first ones."""
BETWEEN = "\x1f"
"""Separates the entries of a list, which hold no such letter."""
COMPARED_FIRST = 64
"""Letters of a text."""


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Look at every dataset of `datasets` that is mapped."""
    hooks.add("datasets.arrow_dataset", lambda module: _watch(session, module.Dataset))


def _watch(session: ProbeSession, dataset_class: Any) -> None:
    map_rows = dataset_class.map

    @functools.wraps(map_rows)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Each table once, before the map: `map` may drop the texts or cut them, after which different rows look
        # alike.
        if self._fingerprint not in session.conflicts:
            session.conflicts[self._fingerprint] = conflicts_in(self)
        return map_rows(self, *args, **kwargs)

    dataset_class.map = watched


def conflicts_in(dataset: Any) -> LabelConflicts | None:
    """The conflicts of a table with texts and one column of classes, or with words and a class for each of them."""
    texts = [name for name, feature in dataset.features.items() if _holds_texts(feature)]
    labels = [name for name in dataset.column_names if is_label(dataset, name) or _has_classes(dataset, name)]
    inputs = [name for name in texts if name not in labels]
    if len(labels) != 1 or not inputs or not len(dataset):
        return None
    rows = min(len(dataset), MOST_ROWS)
    table = library("pyarrow").table({name: _column(dataset, name, rows) for name in (*inputs, labels[0])})
    alike = _suspects(table.drop_null(), inputs, labels[0])
    return LabelConflicts(
        rows=len(dataset),
        compared=rows,
        conflicting=_conflicting(alike, inputs, labels[0]),
        inputs=tuple(inputs),
        label=labels[0],
        in_lower_case=_conflicting(_lowered(alike, inputs), inputs, labels[0]),
    )


def _entries(feature: Any) -> Any:
    """The feature of the entries of a list, of any length for each row; None for other columns."""
    return attribute(feature, "feature", None) if attribute(feature, "length", -1) in (-1, None) else None


def _holds_texts(feature: Any) -> bool:
    """Whether a column holds a text for each row, or a list of words."""
    return "string" in (attribute(feature, "dtype", ""), attribute(_entries(feature), "dtype", ""))


def _has_classes(dataset: Any, name: str) -> bool:
    """Whether a column holds a list of classes for each row: the tags of its words."""
    inner = _entries(dataset.features.get(name))
    is_whole = str(attribute(inner, "dtype", "")).startswith(("int", "uint")) and name.lower() in TAG_NAMES
    return type(inner).__name__ == "ClassLabel" or is_whole


def _lowered(table: Any, inputs: list[str]) -> Any:
    compute = library("pyarrow.compute")
    for name in inputs:
        table = table.set_column(table.column_names.index(name), name, compute.utf8_lower(table[name]))
    return table


def _suspects(table: Any, inputs: list[str], label: str) -> Any:
    """The rows that share length and beginning of their texts with one of another label, whatever their case."""
    pyarrow, compute = library("pyarrow"), library("pyarrow.compute")
    keys: dict[str, Any] = {}
    for number, name in enumerate(inputs):
        keys[f"length {number}"] = compute.utf8_length(table[name])
        keys[f"start {number}"] = compute.utf8_lower(compute.utf8_slice_codeunits(table[name], 0, COMPARED_FIRST))
    names = list(keys)
    alike = pyarrow.table({**keys, "label": table[label], "row": pyarrow.array(range(len(table)))})
    # Length and 64 letters are a necessary condition: equal texts have both. Only rows that pass
    # it are compared in full, for whole texts are slow.
    counted = alike.group_by(names).aggregate([("label", "count_distinct"), ("row", "list")])
    several = counted.filter(compute.greater(counted["label_count_distinct"], 1))
    return table.take(compute.list_flatten(several["row_list"]))


def _conflicting(table: Any, inputs: list[str], label: str) -> int:
    """How many rows of a table have the texts of a row with another label."""
    compute = library("pyarrow.compute")
    counted = table.group_by(inputs).aggregate([(label, "count_distinct"), (label, "count")])
    several = compute.greater(counted[f"{label}_count_distinct"], 1)
    return int(compute.sum(counted.filter(several)[f"{label}_count"]).as_py() or 0)


def _column(dataset: Any, name: str, rows: int) -> Any:
    column = dataset.data.column(name)
    if dataset._indices is not None:
        column = column.take(dataset._indices.column(0).slice(0, rows))
    column = column.slice(0, rows)
    pyarrow, compute, types = library("pyarrow"), library("pyarrow.compute"), library("pyarrow.types")
    if not (types.is_list(column.type) or types.is_large_list(column.type)):
        return column
    texts = compute.cast(column, pyarrow.list_(pyarrow.string()))  # tables group by no lists
    return compute.binary_join(texts, BETWEEN)


def of_training(session: ProbeSession, rows: int | None) -> LabelConflicts | None:
    """Those of the dataset that the training set was made of: as long, or the only one there is."""
    found = [each for each in session.conflicts.values() if each is not None]
    # A script may map train and test, or a second corpus. Numbers of the wrong one would be a false claim, so none
    # is used where two fit.
    alike = [each for each in found if each.rows == rows]
    return alike[0] if len(alike) == 1 else found[0] if len(found) == 1 else None
