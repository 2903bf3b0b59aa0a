"""Rows that are in a table or in tensors already: looked at by thousands, without calling the script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lintrain.evidence.run import RowFault
from lintrain.runtime.child.library import has, library, loaded
from lintrain.runtime.measure.row_values import MANGLED, MASK, REPLACED, Values, as_numbers, is_picture
from lintrain.runtime.measure.swept_rows import FEWEST_TOKENS, RowsSeen

TABLE_ROWS = 20_000
"""Rows of a table that are looked at together."""
TENSOR_NUMBERS = 4_000_000

Piece = Callable[[RowsSeen], int]
"""Looks at some rows, and says how many."""


def pieces_of_table(dataset: Any) -> Iterator[Piece]:
    """The pieces of a `datasets.Dataset`, from all over it; of a repeated sample only the rows that it has."""
    order = dataset._indices
    if order is not None and len(order) > len(dataset._data):
        order = None  # the rows that were worked on, not their copies
    rows = len(dataset._data) if order is None else len(order)
    for start in _spread_starts(rows, TABLE_ROWS):
        yield _table_piece(dataset, order, start, min(TABLE_ROWS, rows - start))


def _table_piece(dataset: Any, order: Any, start: int, rows: int) -> Piece:
    def look(seen: RowsSeen) -> int:
        table = dataset.data.table if has(dataset.data, "table") else dataset.data
        piece = table.slice(start, rows) if order is None else table.take(order.column(0).slice(start, rows))
        numbers = library("numpy").arange(start, start + rows)
        parts: dict[str, tuple[Any, Any]] = {}
        for name in dataset.column_names:
            _look_at_column(seen, name, piece.column(name).combine_chunks(), numbers, parts)
        _compare(seen, numbers, parts)
        seen.rows += rows
        return rows

    return look


def _look_at_column(seen: RowsSeen, name: str, column: Any, numbers: Any, parts: dict[str, tuple[Any, Any]]) -> None:
    types = library("pyarrow.types")
    values = seen.values_of(name)
    if types.is_string(column.type) or types.is_large_string(column.type):
        _look_at_texts(seen, values, column, numbers)
        return
    found = _numbers_of(column, numbers)
    if found is None:
        return
    known, flat, sizes, lengths, depth = found
    values.rows += len(known)
    if depth == 1:
        _keep_lengths(values, str(flat.dtype), known, lengths)
    values.look_at(known, flat, sizes, lengths.tolist(), (0,) * depth)
    if depth <= 1 and len(known) == len(numbers):
        parts[name] = (flat, sizes)


def _numbers_of(column: Any, numbers: Any) -> tuple[Any, Any, Any, Any, int] | None:
    """The rows of a column that are not null, their numbers one after the other, how many each has, and the depth."""
    numpy, types, compute = library("numpy"), library("pyarrow.types"), library("pyarrow.compute")
    known = numbers
    if column.null_count:
        known = numbers[numpy.asarray(column.is_valid().to_numpy(zero_copy_only=False))]
        column = column.drop_null()
    sizes = numpy.ones(len(known), numpy.int64)
    lengths, depth = sizes, 0
    while types.is_list(column.type) or types.is_large_list(column.type):
        own = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(numpy.int64)
        if depth:
            ends = numpy.cumsum(sizes)
            sums = numpy.concatenate([[0], numpy.cumsum(own)])
            sizes = sums[ends] - sums[ends - sizes]
        else:
            sizes = lengths = own
        column, depth = compute.list_flatten(column), depth + 1
    if not (types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)):
        return None
    flat = column.to_numpy(zero_copy_only=False)
    return (known, flat, sizes, lengths, depth) if len(flat) == int(sizes.sum()) else None


def _keep_lengths(values: Values, dtype: str, numbers: Any, lengths: Any) -> None:
    numpy = library("numpy")
    found, first, counts = numpy.unique(lengths, return_index=True, return_counts=True)
    for length, position, count in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True):
        form = ("list", dtype, (length,))
        values.forms[form] += count
        values.first_of.setdefault(form, [])
        rows = numbers[lengths == length][:3].tolist() if count <= 3 else [int(numbers[position])]
        values.first_of[form] = [*values.first_of[form], *rows][:3]


def _look_at_texts(seen: RowsSeen, values: Values, column: Any, numbers: Any) -> None:
    compute = library("pyarrow.compute")
    values.rows += len(column)
    values.characters += compute.sum(compute.utf8_length(column)).as_py() or 0
    if not values.is_input:
        return
    empty = compute.equal(compute.utf8_trim_whitespace(column), "")
    replaced = compute.match_substring(column, REPLACED)
    mangled = compute.match_substring_regex(column, MANGLED.pattern)
    named: tuple[tuple[RowFault, Any], ...] = (
        ("empty text", empty),
        ("replaced characters", replaced),
        ("mangled characters", mangled),
    )
    for fault, mask in named:
        count = compute.sum(mask).as_py() or 0
        if count:
            where = compute.indices_nonzero(compute.fill_null(mask, False))[:3].to_pylist()
            first = {int(numbers[position]): repr(column[position].as_py())[:40] for position in where}
            seen.faults.add_rows(fault, values.name, first, count)


def _compare(seen: RowsSeen, numbers: Any, parts: dict[str, tuple[Any, Any]]) -> None:
    """The mask with the ids, and the ids with those of earlier rows."""
    if "input_ids" not in parts:
        return
    numpy = library("numpy")
    flat, sizes = parts["input_ids"]
    if MASK in parts:
        of_mask = parts[MASK][1]
        wrong = numpy.flatnonzero(of_mask != sizes)
        first = {int(numbers[row]): f"{of_mask[row]} entries for {sizes[row]} tokens" for row in wrong[:3]}
        seen.faults.add_rows("mask length", MASK, first, len(wrong))
    label = next(
        (parts[name][0] for name in seen.label_names if name in parts and len(parts[name][0]) == len(sizes)), None
    )
    ends = numpy.cumsum(sizes)
    for position in range(min(len(sizes), seen.repeats.room)):
        size, end = sizes[position], ends[position]
        if size >= FEWEST_TOKENS:
            key = hash(flat[end - size : end].tobytes())
            seen.repeats.add_key(key, int(numbers[position]), None if label is None else int(label[position]))


def pieces_of_arrays(arrays: dict[str, Any], label: str | None) -> Iterator[Piece]:
    """The pieces of arrays or tensors with a row of each for every row."""
    rows = min(len(array) for array in arrays.values())
    largest = max(int(array[:1].nelement() if has(array, "nelement") else array[:1].size) for array in arrays.values())
    size = max(1, TENSOR_NUMBERS // max(1, largest))
    for start in _spread_starts(rows, size):
        yield _array_piece(arrays, label, start, min(size, rows - start))


def _array_piece(arrays: dict[str, Any], label: str | None, start: int, rows: int) -> Piece:
    def look(seen: RowsSeen) -> int:
        numpy = library("numpy")
        numbers = numpy.arange(start, start + rows)
        pieces = {name: as_numbers(array[start : start + rows]) for name, array in arrays.items()}
        for name, piece in pieces.items():
            values = seen.values_of(name, is_label=name == label)
            values.rows += rows
            if piece is None:
                continue
            values.keep_kind(type(arrays[name]).__name__, str(piece.dtype))
            each = int(piece[0].size)
            lengths = [piece.shape[1]] * rows if piece.ndim > 1 else []
            values.look_at(numbers, piece.reshape(-1), numpy.full(rows, each), lengths, piece.shape[1:])
        _remember(seen, numbers, pieces, label)
        floats = {name: piece for name, piece in pieces.items() if name != label and _is_float(piece)}
        seen.copies.add(floats, pieces.get(label) if label is not None else None)
        seen.rows += rows
        return rows

    return look


def _is_float(piece: Any) -> bool:
    return piece is not None and piece.dtype.kind == "f"


def _remember(seen: RowsSeen, numbers: Any, pieces: dict[str, Any], label: str | None) -> None:
    inputs = next((piece for name, piece in pieces.items() if name != label), None)
    labels = pieces.get(label) if label is not None else None
    if inputs is None or inputs.ndim < 2:
        return
    is_tokens = inputs.ndim == 2 and inputs.dtype.kind in "iu" and inputs.shape[1] >= FEWEST_TOKENS
    if not is_tokens and not is_picture(inputs.shape[1:]):
        return
    is_class = labels is not None and labels.ndim == 1 and labels.dtype.kind in "iub"
    for position in range(min(len(inputs), seen.repeats.room)):
        if not is_tokens and inputs[position].min() == inputs[position].max():
            continue
        value = int(labels[position]) if is_class and labels is not None else None
        seen.repeats.add_key(hash(inputs[position].tobytes()), int(numbers[position]), value)


def _spread_starts(rows: int, size: int) -> Iterator[int]:
    """The first row of each piece, in an order in which the first few are from all over."""
    pieces = -(-rows // size)
    return (number * size for number in spread_order(pieces))


def spread_order(count: int) -> Iterator[int]:
    """All numbers below one, in steps of about 0.618 of it: any first part of them is spread evenly."""
    step = max(1, round(count * 0.618_034))
    while _common(step, count) != 1:
        step += 1
    return (number * step % count for number in range(count))


def _common(one: int, other: int) -> int:
    while other:
        one, other = other, one % other
    return one


def tensors_of_dataset(dataset: Any) -> dict[str, Any] | None:
    """The tensors of a plain `TensorDataset` by position; None for any other."""
    data = loaded("torch.utils.data")
    is_plain = data is not None and dataset.__class__.__getitem__ is data.TensorDataset.__getitem__
    tensors = dataset.tensors if is_plain else ()
    usable = all(tensor.layout is library("torch").strided and tensor.device.type == "cpu" for tensor in tensors)
    return {str(position): tensor for position, tensor in enumerate(tensors)} if tensors and usable else None
