"""Data of torch: map-style data sets, loaders, and the batches that a loop gets of them.

Batches that the script's own collate function makes: it is read on a list of the data set's items.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.items import any_of
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    element_of,
    entries_of,
    family,
    function,
    held_by,
    method,
    operated,
    stored_item_of,
    subscript_of,
    unpacked,
)
from lintrain.interpreter.imports import GRAPH_LOADERS
from lintrain.interpreter.shapes import integer
from lintrain.libraries.datasets.deriving import derived
from lintrain.libraries.datasets.rows import note_list
from lintrain.libraries.torch.default_collation import batch_of
from lintrain.libraries.torch.images import attribute_of_images, image_row, masked_row
from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import CollatedRows, Dataset, Encoding, Rows
from lintrain.pipeline.values.loading import Batch, Collated, Loader, TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Constant,
    Either,
    Function,
    Instance,
    LibraryObject,
    Literal,
    Mapping,
    Partial,
    Sequence,
    Slice,
    Unknown,
    Value,
    is_missing,
    literal,
    options_of,
)
from lintrain.pipeline.values.tensors import Count, Shape, Whole, computed
from lintrain.startup.lazy_pattern import lazy_pattern

PARAMETERS = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
)


@function("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", *GRAPH_LOADERS)
def _loader(call: Call) -> Value:
    # A loader of graphs has its own batches, and other arguments by position.
    is_of_graphs = call.path in GRAPH_LOADERS
    arguments = call.named(*(PARAMETERS[:3] if is_of_graphs else PARAMETERS))
    given = arguments.get("dataset")
    loader = Loader(
        given.value if given else UNKNOWN,
        UNKNOWN if is_of_graphs else call.value("collate_fn", 6),
        {name: argument.value for name, argument in arguments.items()},
        call.text,
        given.location if given else None,
        {name: argument.location for name, argument in arguments.items()},
        not call.is_open and "**" not in arguments,
        origin=call.location,
    )
    if given is not None and not is_of_graphs:
        note_list(call.reader, given.value, given.location, given.text)
    call.reader.record.loaders.append(loader)
    return loader


@element_of(Loader)
def _batch(reader: Reader, value: Value) -> Value:
    if not isinstance(value, Loader):
        return Batch(name="batch")
    content = collated(reader, value)
    return (
        Batch(name="batch", loader=value) if content is None else Collated(name="batch", loader=value, content=content)
    )


@method(Loader, "__iter__")
def _iterate(call: Call) -> Value:
    return call.receiver


@method(Loader, "__next__", "next")
def _next(call: Call) -> Value:
    """`iter(loader).next()`, as older versions have it."""
    return dispatch.element(call.reader, call.receiver)


LOADER_NAME = lazy_pattern(r"(loader|_dl|batches)$", re.IGNORECASE)
"""Names by which scripts call what gives batches."""


@method(Loader, "__len__")
@method(Unknown, "__len__")
def _batches(call: Call) -> Value:
    """How many batches a loader gives; an unknown value is a loader if it has such a name."""
    over = call.receiver
    if isinstance(over, Unknown) and not LOADER_NAME.search(over.name):
        return UNKNOWN
    # The position among the events is kept, since a loader that is prepared later has fewer batches for
    # each process.
    return Count(over, made_at=len(call.reader.record.events), origin=call.location)


@operated(Count)
def _compute(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    return computed(left, operator, right, location)


@function("math.ceil", "math.floor")
def _rounded(call: Call) -> Value:
    value = call.value("number", 0)
    return value if isinstance(value, Count) else UNKNOWN


@subscript_of(Batch)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`batch[0]` of a batch that is not known: the same unknown thing each time."""
    if isinstance(key, Constant):
        return dispatch.child(reader, value, f"[{key.value!r}]")
    # A slice of a batch is one thing for all slices: some of its rows.
    return UNKNOWN if not isinstance(key, Slice) else dispatch.child(reader, value, "[:]")


MOST_SPLITS = 8
"""Parts of a split that are known one by one."""


@function("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
def _tensors(call: Call) -> Value:
    tensors = tuple(argument.value for argument in call.positional)
    sizes = [each.shape.sizes[0] for each in tensors if isinstance(each, Tensor) and each.shape.rank]
    return _made(call, tensors, sizes[0] if sizes else None)


@function("torch.utils.data.ConcatDataset", "torch.utils.data.dataset.ConcatDataset")
def _together(call: Call) -> Value:
    known = operations.known_items(call.value("datasets", 0), MOST_SPLITS)
    return _made(call, tuple(known or ()))


@function("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
def _subset(call: Call) -> Value:
    dataset = call.value("dataset", 0)
    return derived(call, dataset, "Subset") if isinstance(dataset, Dataset) else _made(call, (dataset,))


@function("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")
def _split(call: Call) -> Value:
    """Parts of one data set, sampled at random; a Hugging Face data set stays what it is."""
    dataset = call.value("dataset", 0)
    lengths = operations.known_items(call.value("lengths", 1), MOST_SPLITS)
    if lengths is None:
        return Unknown(name="splits")
    if isinstance(dataset, Dataset):
        return Sequence([derived(call, dataset, "random_split") for _ in lengths], "list")
    return Sequence([_made(call, (dataset,), integer(length)) for length in lengths], "list")


@family("torchvision")
def _torchvision(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return _images if package == "torchvision.datasets" and name[:1].isupper() else None


def _images(call: Call) -> Value:
    return _made(call, ())


def _made(call: Call, parts: tuple[Value, ...], rows: int | None = None) -> TorchDataset:
    arguments: dict[str, Argument] = dict(call.named(*(str(index) for index in range(len(call.positional)))))
    is_complete = not call.is_open and "**" not in arguments
    return TorchDataset(call.path, parts, arguments, is_complete, call.text, rows, origin=call.location)


@method(Loader, "next", "__next__")
def _next_batch(call: Call) -> Value:
    """`iter(loader).next()`, as it was written for Python 2."""
    return dispatch.element(call.reader, call.receiver)


@method(TorchDataset, "__getitem__", "__len__")
def _look(call: Call) -> Value:
    return Whole(origin=call.location) if call.path.endswith("__len__") else UNKNOWN


@attribute_of(TorchDataset)
def _all_rows(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """`dataset.targets`, `dataset.classes`."""
    return attribute_of_images(value, name) if isinstance(value, TorchDataset) else None


@element_of(TorchDataset)
def _row(reader: Reader, value: Value) -> Value:
    found = row_of(reader, value, value.origin) if value.origin is not None else UNKNOWN
    return Unknown(name="row") if isinstance(found, Unknown) else found


@subscript_of(TorchDataset)
def _row_at(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`dataset[0]`, `dataset[index]`."""
    is_number = isinstance(key, Whole | Unknown) or integer(key) is not None
    return _row(reader, value) if is_number else UNKNOWN


MOST_COLLATIONS = 16
"""Loops over one loader for which its collate function is read again."""


def collated(reader: Reader, loader: Loader) -> Value | None:
    """One batch of a loader, by its own collate function; None if that is not understood, or the libraries' own."""
    location = loader.origin
    if location is None or takes_one_row(loader) or takes_lists(loader) or loader.collations >= MOST_COLLATIONS:
        return None
    if is_missing(loader.collate):
        loader.collations += 1
        with reader.aside():
            return batch_of(row_of(reader, loader.dataset, location))
    # Read for each loop over the loader, since each may do other things to the batch, but with a bound: a
    # collate function may itself contain loops over loaders.
    if not _is_own(loader.collate):
        return None
    loader.collations += 1
    with reader.aside():
        row = row_of(reader, loader.dataset, location)
        # The default of `batch_size` is 1, and a sampler may give batches of any size.
        many = is_many(loader.arguments.get("batch_size"), 1) and "sampler" not in loader.arguments
        content = read_collate(reader, loader.collate, row, location, is_of_many=many)
    loader.passed_on = content if isinstance(content, CollatedRows) and not content.is_changed else None
    is_whole = isinstance(content, Sequence) and content.is_complete and bool(content.items)
    return content if is_whole or isinstance(content, Mapping | Encoding | Rows | Tensor) else None


def takes_one_row(loader: Loader) -> bool:
    """Whether a loader puts no batches together: `batch_size=None`."""
    return "batch_size" in loader.arguments and is_missing(loader.arguments["batch_size"])


def takes_lists(loader: Loader) -> bool:
    """Whether a loader asks for all rows of a batch at once: `sampler=BatchSampler(…)` gives lists of numbers."""
    given = options_of(loader.arguments.get("sampler", UNKNOWN))
    return any(isinstance(each, LibraryObject) and each.path.endswith(".BatchSampler") for each in given)


def read_collate(reader: Reader, collate: Value, row: Value, location: Location, *, is_of_many: bool) -> Value:
    """What a collate function gives for a list of such rows; `is_of_many` if these are certainly several."""
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
        case Either(options=options):
            held = [option for option in options if not is_missing(option)]
            row = any_of([row_of(reader, option, location) for option in held]) if held else None
        case Dataset() | Sequence():
            row = dispatch.element(reader, dataset)
        case Instance():
            row = objects.special(reader, dataset, "__getitem__", [Whole(name="index")], location)
        case TorchDataset() if (image := image_row(dataset) or masked_row(dataset)) is not None:
            row = image
        case TorchDataset(name="TensorDataset", parts=parts) if parts:
            row = Sequence([_one(part) for part in parts], "tuple")
        # Data of one class that are loaded alike have rows alike: MNIST's for training and for testing.
        case TorchDataset(name="ConcatDataset", parts=(TorchDataset(path=path) as first, *others)) if all(
            isinstance(each, TorchDataset) and each.path == path for each in others
        ):
            row = row_of(reader, first, location)
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
    """What a batch holds; the value itself if that is not such a batch."""
    return value.content if isinstance(value, Collated) else value


@attribute_of(Collated)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    return dispatch.attribute(reader, content_of(value), name, location)


@subscript_of(Collated)
def _collated_item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    return dispatch.subscript(reader, content_of(value), key, location)


@element_of(Collated)
def _each(reader: Reader, value: Value) -> Value:
    return dispatch.element(reader, content_of(value))


@unpacked(Collated)
def _unpack_collated(reader: Reader, value: Value, count: int) -> list[Value] | None:
    return operations.unpack(reader, content_of(value), count)


@stored_item_of(Collated)
def _store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    storing.store_item(reader, content_of(owner), key, value, location)


@entries_of(Collated)
def _entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    return held_by(content_of(value))
