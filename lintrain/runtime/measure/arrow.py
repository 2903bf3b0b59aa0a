"""Columns of an Arrow table: ranges and counts over whole columns, in milliseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lintrain.evidence.run import ColumnEvidence
from lintrain.runtime.child.library import attribute, is_row, library
from lintrain.runtime.measure.tokenizer import binned, quantiles

MOST_VALUES = 1_000
"""A column with more distinct values than this is no label column; its counts are left out."""
MOST_LISTS = 20_000
"""Lists (token ids) are read on evenly spaced rows beyond this number."""
TOKEN_COLUMNS = ("input_ids", "decoder_input_ids", "attention_mask", "token_type_ids", "special_tokens_mask")


def arrow_columns(dataset: Any) -> list[ColumnEvidence]:
    """Every column of a `datasets.Dataset`, in its order."""
    return [_column(dataset, name, feature) for name, feature in dataset.features.items()]


def _column(dataset: Any, name: str, feature: Any) -> ColumnEvidence:
    kind, dtype, names = described(name, feature)
    types, stored = library("pyarrow.types"), dataset.data.column(name).type
    if types.is_integer(stored) or types.is_boolean(stored) or types.is_floating(stored):
        return _scalars(name, kind, dtype, names, _values(dataset, name))
    if types.is_list(stored) or types.is_large_list(stored):
        return _lists(name, kind, dtype, names, _spread(dataset, name))
    return ColumnEvidence(name, kind, dtype, names=names, rows_read=len(dataset))


def _values(dataset: Any, name: str) -> Any:
    column = dataset.data.column(name)
    # Without indices the table has the rows in their order, and no row is copied.
    if dataset._indices is None:
        return column
    return column.take(dataset._indices.column(0))


def _scalars(name: str, kind: str, dtype: str, names: tuple[str, ...], values: Any) -> ColumnEvidence:
    compute, types = library("pyarrow.compute"), library("pyarrow.types")
    if types.is_boolean(values.type):
        # As the labels 0 and 1 that they become.
        values = values.cast("int8")
    numbers = values.drop_null()
    finite = numbers.filter(compute.is_finite(numbers)) if types.is_floating(values.type) else numbers
    span = compute.min_max(finite).as_py()
    return ColumnEvidence(
        name,
        kind,
        dtype,
        minimum=_number(span["min"]),
        maximum=_number(span["max"]),
        # A count for each float would be one for nearly each row.
        counts=() if types.is_floating(values.type) else value_counts(numbers),
        names=names,
        rows_read=len(values),
        non_finite=len(numbers) - len(finite),
    )


def _lists(name: str, kind: str, dtype: str, names: tuple[str, ...], chosen: Any) -> ColumnEvidence:
    types = library("pyarrow.types")
    inner = _flattened(chosen)
    found = _lengths(chosen)
    known = ColumnEvidence(
        name, kind, dtype, names=names, lengths=quantiles(found), rows_read=len(chosen), length_bins=binned(found)
    )
    if inner is None or not types.is_integer(inner.type):
        return known
    compute = library("pyarrow.compute")
    span = compute.min_max(inner).as_py()
    # Token ids are no classes, and there may be a hundred million of them.
    counts = value_counts(inner) if name not in TOKEN_COLUMNS else ()
    return replace(known, minimum=_number(span["min"]), maximum=_number(span["max"]), counts=counts)


def _flattened(lists: Any) -> Any | None:
    """The entries of a list column, however deep; None if they are no lists of numbers."""
    compute, types = library("pyarrow.compute"), library("pyarrow.types")
    while types.is_list(lists.type) or types.is_large_list(lists.type):
        lists = compute.list_flatten(lists)
    return lists


def _spread(dataset: Any, name: str) -> Any:
    """A column on evenly spaced rows; only those are taken out of the table, for all of them may fill the memory."""
    if len(dataset) <= MOST_LISTS:
        return _values(dataset, name)
    step = len(dataset) / MOST_LISTS
    # Not the first ones: sorted data would show short lists only.
    rows = library("pyarrow").array([int(index * step) for index in range(MOST_LISTS)])
    order = dataset._indices
    return dataset.data.column(name).take(rows if order is None else order.column(0).take(rows))


def _lengths(lists: Any) -> list[int]:
    lengths: list[int] = library("pyarrow.compute").list_value_length(lists).drop_null().to_pylist()
    return lengths


def row_lengths(dataset: Any) -> list[int]:
    """The length of every row: its token ids, else its first list or text; empty where it has neither."""
    compute, types = library("pyarrow.compute"), library("pyarrow.types")
    # The token ids first, whatever the order of columns is: a text column is only their source.
    for name in sorted(dataset.column_names, key=lambda name: name != TOKEN_COLUMNS[0]):
        stored = dataset.data.column(name).type
        if types.is_list(stored) or types.is_large_list(stored):
            return [length or 0 for length in compute.list_value_length(_values(dataset, name)).to_pylist()]
        if types.is_string(stored) or types.is_large_string(stored):
            return [length or 0 for length in compute.utf8_length(_values(dataset, name)).to_pylist()]
    return []


def value_counts(values: Any) -> tuple[tuple[int, int], ...]:
    """[value, rows] by value; empty if there are too many different ones to be classes."""
    counted = library("pyarrow.compute").value_counts(values)
    if len(counted) > MOST_VALUES:
        return ()
    return tuple(sorted((int(entry["values"]), int(entry["counts"])) for entry in counted.to_pylist()))


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def described(name: str, feature: Any) -> tuple[str, str, tuple[str, ...]]:
    """Kind, dtype and class names of a feature."""
    kind = type(feature).__name__
    dtype = str(attribute(feature, "dtype", "") or kind)
    if kind == "ClassLabel":
        return "class label", dtype, tuple(feature.names or ())
    if kind == "Value":
        return _scalar_kind(dtype), dtype, ()
    inner = attribute(feature, "feature", None)
    if is_row(feature) and feature:
        inner = feature[0]
    if inner is not None:
        inner_kind, inner_dtype, names = described(name, inner)
        plural = "token ids" if name in TOKEN_COLUMNS[:2] else _plural(inner_kind)
        return plural, f"list<{inner_dtype}>", names
    return ("structure" if isinstance(feature, dict) else kind.lower()), dtype, ()


def _scalar_kind(dtype: str) -> str:
    if "string" in dtype:
        return "text"
    if dtype.startswith(("int", "uint", "bool")):
        return "integer"
    return "number" if dtype.startswith(("float", "double")) else dtype


def _plural(kind: str) -> str:
    return kind if kind.startswith("lists") else f"lists of {kind}"
