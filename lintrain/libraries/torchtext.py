"""Legacy torchtext: iterators over examples, whose batches have the fields as attributes."""

from __future__ import annotations

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, element_of, function, method
from lintrain.interpreter.tracing import DATA
from lintrain.model.location import Location
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Sequence, Value
from lintrain.pipeline.values.tensors import Count, Operation
from lintrain.startup.lazy_dataclass import dataclass

ITERATORS = ("BucketIterator", "Iterator", "BPTTIterator")

MOST_SPLITS = 8
"""Data sets that are known one by one."""

OTHER_ATTRIBUTES = frozenset({"batch_size", "dataset", "fields", "input_fields", "target_fields"})
"""Attributes of a batch that are no fields."""


@dataclass(eq=False, slots=True)
class FieldIterator(LibraryObject):
    """What gives batches of examples."""


@dataclass(eq=False, slots=True)
class FieldBatch(LibraryObject):
    """A batch: a tensor for each field, or a tensor and the lengths of its rows."""


@function(*(f"torchtext.data.{name}" for name in ITERATORS))
def _iterator(call: Call) -> Value:
    return FieldIterator(call.path, call.values(), origin=call.location)


@function(*(f"torchtext.data.{name}.splits" for name in ITERATORS))
def _splits(call: Call) -> Value:
    """`BucketIterator.splits((train, valid, test), batch_size=…)`: an iterator for each data set."""
    datasets = operations.known_items(call.value("datasets", 0), MOST_SPLITS)
    made = FieldIterator(call.path, call.values(), origin=call.location)
    if datasets is None:
        return Sequence([made], "tuple", False, True, origin=call.location)
    return Sequence([made] * len(datasets), "tuple", origin=call.location)


@element_of(FieldIterator)
def _batch(reader: Reader, value: Value) -> Value:
    return FieldBatch("torchtext.data.Batch", origin=value.origin)


@method(FieldIterator, "__len__")
def _count(call: Call) -> Value:
    return Count(call.receiver, made_at=len(call.reader.record.events), origin=call.location)


@attribute_of(FieldBatch)
def _field(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """`batch.text`, `batch.label`."""
    if name in OTHER_ATTRIBUTES or name.startswith("_"):
        return UNKNOWN
    text = reader.code(location)
    return Tensor(text=text, made=Operation(DATA, value.origin, text), origin=location)
