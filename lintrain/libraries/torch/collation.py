"""Batches that the script's own collate function makes: it is read on a list of the data set's items."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations, storing
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    element_of,
    entries_of,
    held_by,
    stored_item_of,
    subscript_of,
    unpacked,
)
from lintrain.model.location import Location
from lintrain.pipeline.values.counts import Whole
from lintrain.pipeline.values.data import Dataset, Encoding, Rows
from lintrain.pipeline.values.loading import Collated, Loader, TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    Bound,
    Function,
    Instance,
    Literal,
    Mapping,
    Partial,
    Sequence,
    Unknown,
    Value,
    is_missing,
    literal,
)
from lintrain.pipeline.values.tensors import Shape

MOST_COLLATIONS = 16
"""Loops over one loader for which its collate function is read anew."""


def collated(reader: Reader, loader: Loader) -> Value | None:
    """One batch of a loader, by its own collate function; None where that is not understood, or the libraries' own."""
    location = loader.origin
    # Read for each loop over the loader, since each may do other things to the batch, but with a bound: a
    # collate function may itself contain loops over loaders.
    if location is None or takes_one_row(loader) or not _is_own(loader.collate) or loader.collations >= MOST_COLLATIONS:
        return None
    loader.collations += 1
    with reader.aside():
        row = row_of(reader, loader.dataset, location)
        # The default of `batch_size` is 1, and a sampler may give batches of any size.
        many = is_many(loader.arguments.get("batch_size"), 1) and "sampler" not in loader.arguments
        content = read_collate(reader, loader.collate, row, location, is_of_many=many)
    is_whole = isinstance(content, Sequence) and content.is_complete and bool(content.items)
    return content if is_whole or isinstance(content, Mapping | Encoding | Rows | Tensor) else None


def takes_one_row(loader: Loader) -> bool:
    """Whether a loader puts no batches together: `batch_size=None`."""
    return "batch_size" in loader.arguments and is_missing(loader.arguments["batch_size"])


def read_collate(reader: Reader, collate: Value, row: Value, location: Location, *, is_of_many: bool) -> Value:
    """What a collate function gives for a list of such rows; `is_of_many` where these are certainly several."""
    since, before = len(reader.record.encodings), len(reader.record.misuses)
    content = dispatch.call(reader, collate, [Sequence([row], "list", False, origin=location)], location=location)
    for encoding in reader.record.encodings[since:]:
        texts = encoding.inputs
        # The list has one row that stands for all. Only here is it known whether the tokenizer gets several
        # texts, and so needs padding.
        encoding.has_several = is_of_many and isinstance(texts, Sequence) and not texts.is_complete
    for index, misuse in enumerate(reader.record.misuses[before:], before):
        if is_of_many and misuse.use == "stacked":
            reader.record.misuses[index] = replace(misuse, use="collate")
    return content


def is_many(size: Value | None, default: int) -> bool:
    """Whether a batch size is certainly above one."""
    number = default if size is None or is_missing(size) else literal(size)
    return isinstance(number, int) and number > 1


def _is_own(collate: Value) -> bool:
    """Whether a collate function is code of the script."""
    match collate:
        case Function():
            return True
        case Bound(function=function):
            return function is not None
        case Partial(function=function):
            return _is_own(function)
        case Instance(cls=cls):
            return cls.lookup("__call__") is not None
        case _:
            return False


def row_of(reader: Reader, dataset: Value, location: Location) -> Value:
    """One item of a data set, as a collate function gets it in a list."""
    row: Value | None = None
    match dataset:
        case Dataset() | Sequence():
            row = dispatch.element(reader, dataset)
        case Instance():
            row = objects.special(reader, dataset, "__getitem__", [Whole(name="index")], location)
        case TorchDataset(name="TensorDataset", parts=parts) if parts:
            row = Sequence([_one(part) for part in parts], "tuple")
        # A `Subset` and the parts of `random_split` give the rows of the data set that they were taken
        # from.
        case TorchDataset(parts=(whole,)):
            row = row_of(reader, whole, location)
        case _:
            pass
    return Unknown(name="batch") if row is None or isinstance(row, Unknown) else row


def _one(part: Value) -> Value:
    """One row of a tensor."""
    if not isinstance(part, Tensor):
        return Unknown(name="batch")
    if part.shape.is_open or not part.shape.sizes:
        return replace(part)
    return replace(part, shape=Shape(part.shape.sizes[1:], False))


def content_of(value: Value) -> Value:
    """What a batch holds; the value itself where that is not such a batch."""
    return value.content if isinstance(value, Collated) else value


@attribute_of(Collated)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    return dispatch.attribute(reader, content_of(value), name, location)


@subscript_of(Collated)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    return dispatch.subscript(reader, content_of(value), key, location)


@element_of(Collated)
def _each(reader: Reader, value: Value) -> Value:
    return dispatch.element(reader, content_of(value))


@unpacked(Collated)
def _unpack(reader: Reader, value: Value, count: int) -> list[Value] | None:
    return operations.unpack(reader, content_of(value), count)


@stored_item_of(Collated)
def _store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    storing.store_item(reader, content_of(owner), key, value, location)


@entries_of(Collated)
def _entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    return held_by(content_of(value))
