"""Batches of a loader over tensors: each part keeps its axes, and its first axis is the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline import operations
from lintrain.pipeline.registry import subscript_of, unpacked
from lintrain.pipeline.shapes import integer
from lintrain.pipeline.values.loading import Batch, TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Slice, Value, is_missing
from lintrain.pipeline.values.tensors import Shape

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


@unpacked(Batch)
def _unpack(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`for x, y in loader`."""
    if not isinstance(value, Batch):
        return None
    parts = _tensors(value)
    return [_batched(part) for part in parts] if len(parts) == count else None


@subscript_of(Batch)
def _item(reader: Reader, value: Value, key: Value, place: Place) -> Value:
    """`batch[0]`; another key gives the same unknown thing each time."""
    parts = _tensors(value) if isinstance(value, Batch) else ()
    position = integer(key)
    if position is not None and 0 <= position < len(parts):
        return _batched(parts[position])
    if isinstance(key, Constant):
        return operations.child(reader, value, f"[{key.value!r}]")
    return UNKNOWN if not isinstance(key, Slice) else operations.child(reader, value, "[:]")


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    """The tensors that a loader's data set is made of; none where it may be made of anything else."""
    loader = batch.loader
    if loader is None or not is_missing(loader.collate):
        return ()
    dataset = loader.dataset
    while isinstance(dataset, TorchDataset) and dataset.name != "TensorDataset" and len(dataset.parts) == 1:
        dataset = dataset.parts[0]
    parts = dataset.parts if isinstance(dataset, TorchDataset) and dataset.name == "TensorDataset" else ()
    tensors = tuple(part for part in parts if isinstance(part, Tensor))
    return tensors if len(tensors) == len(parts) else ()


def _batched(tensor: Tensor) -> Tensor:
    """The same axes, the first of them as long as a batch."""
    if not tensor.shape.sizes or tensor.shape.is_open:
        return replace(tensor)
    return replace(tensor, shape=Shape((None, *tensor.shape.sizes[1:]), False))
