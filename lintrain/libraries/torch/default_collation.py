"""Batches that torch's default collate function makes: each part of a row gets one axis more, for the rows."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.items import put_together
from lintrain.interpreter.core.registry import held_by
from lintrain.interpreter.shapes import ANY
from lintrain.interpreter.tracing import DATA
from lintrain.model.location import Location
from lintrain.pipeline.values.data import ColumnValues, Encoding, Kind
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    Constant,
    Either,
    Literal,
    Mapping,
    OneOf,
    Sequence,
    Unknown,
    Value,
    join,
)
from lintrain.pipeline.values.tensors import Operation, Real, Shape, Whole

NUMBERS = {Kind.INTEGER: "int", Kind.CLASS: "int", Kind.FLOAT: "float"}
"""The kinds of tensors that columns of plain numbers become."""

ROWS = Shape((None,), False, rows_first=True)


def batch_of(row: Value) -> Value | None:
    """A batch of rows like this one; None for a row that is not built of known parts."""
    match row:
        case Either(options=options):
            batches = [batch for option in options if (batch := batch_of(option)) is not None]
            return put_together(batches) if len(batches) == len(options) else None
        case Sequence(items=items, kind="tuple", is_complete=True):
            return Sequence([_batched(item, f"[{index}]") for index, item in enumerate(items)], "tuple")
        case Mapping() | Encoding():
            entries, is_complete = held_by(row)
            parts: dict[Literal, Value] = {name: _batched(part, f"[{name!r}]") for name, part in entries.items()}
            return Mapping(parts, is_complete)
        case _:
            return None


def _batched(part: Value, key: str) -> Value:
    kind = _kind_of_number(part)
    if kind:
        return Tensor(made=Operation(DATA, part.origin), shape=ROWS, kind=kind, origin=part.origin)
    match part:
        case Tensor(shape=shape):
            return replace(part, shape=ANY if shape.is_open else Shape((None, *shape.sizes), False, rows_first=True))
        case ColumnValues(dataset=Unknown(), axes=int(axes)):
            # A number or text of a frame, or an array, in each row: which of them, code shows that uses the batch.
            return replace(part, axes=axes + 1)
        case ColumnValues():
            return part
        case Either(options=options) if all(isinstance(option, Tensor) for option in options):
            return join(_batched(option, key) for option in options)
        case _:
            return batch_of(part) or Unknown(name=f"batch.{key}")


def batch_of_numbers(values: ColumnValues, location: Location, text: str) -> Tensor | None:
    """The tensor that values of a frame are which code uses as one; None for those of anything else.

    The arrays of a frame have no method that only tensors have, so these are a batch of a loader.
    """
    kind = values.column.kind
    if not isinstance(values.dataset, Unknown) or not values.axes or kind not in NUMBERS | {Kind.UNKNOWN: ""}:
        return None
    shape = Shape((None,) * values.axes, False)
    return Tensor(made=Operation(DATA, location, text), shape=shape, kind=NUMBERS.get(kind, ""), origin=location)


def _kind_of_number(part: Value) -> str:
    """The kind of tensor that a plain number in each row becomes; empty for all else."""
    match part:
        case Whole():
            return "int"
        case Real():
            return "float"
        case ColumnValues(column=column, dataset=dataset) if not isinstance(dataset, Encoding) and not part.axes:
            return NUMBERS.get(column.kind, "")
        case Constant(value=plain) | OneOf(literals=(plain, *_)):
            is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
            return type(plain).__name__ if is_number else ""
        case Either(options=options):
            kinds = {_kind_of_number(option) for option in options}
            return kinds.pop() if len(kinds) == 1 else ""
        case _:
            return ""
