"""Batches of a loader over tensors: each part keeps its axes, and its first axis is the batch."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import subscript_of, unpacked
from lintrain.interpreter.shapes import ANY, integer
from lintrain.libraries.torch.collation import row_of, takes_one_row
from lintrain.model.location import Location
from lintrain.pipeline.values.loading import Batch
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Slice, Value, is_missing
from lintrain.pipeline.values.tensors import Shape


@unpacked(Batch)
def _unpack(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`for x, y in loader`."""
    parts = _parts(reader, value)
    if len(parts) != count:
        return None
    return [dispatch.child(reader, value, f"[{index}]") if part is None else part for index, part in enumerate(parts)]


@subscript_of(Batch)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`batch[0]`; another key gives the same unknown thing each time."""
    parts = _parts(reader, value)
    position = integer(key)
    part = parts[position] if position is not None and 0 <= position < len(parts) else None
    if part is not None:
        return part
    if isinstance(key, Constant):
        return dispatch.child(reader, value, f"[{key.value!r}]")
    return UNKNOWN if not isinstance(key, Slice) else dispatch.child(reader, value, "[:]")


def _parts(reader: Reader, batch: Value) -> list[Tensor | None]:
    """The tensors of a batch that torch puts together itself, None for what is not known; empty where nothing is."""
    loader = batch.loader if isinstance(batch, Batch) else None
    if loader is None or loader.origin is None or not is_missing(loader.collate) or takes_one_row(loader):
        return []
    with reader.aside():
        row = row_of(reader, loader.dataset, loader.origin)
    if not isinstance(row, Sequence) or row.kind != "tuple" or not row.is_complete:
        return []
    return [_batched(part) for part in row.items]


def _batched(part: Value) -> Tensor | None:
    """The same axes behind one for the rows of the batch."""
    if not isinstance(part, Tensor):
        return None
    return replace(part, shape=ANY if part.shape.is_open else Shape((None, *part.shape.sizes), False))
