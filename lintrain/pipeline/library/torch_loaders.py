"""Data loaders of torch and the data sets that torch makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.pipeline import operations
from lintrain.pipeline.call import Call
from lintrain.pipeline.registry import element_of, function, method
from lintrain.pipeline.values.data import Dataset, Loader
from lintrain.pipeline.values.python import UNKNOWN, Sequence, Unknown, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

PARAMETERS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn")


@function("torch.utils.data.DataLoader")
def _loader(call: Call) -> Value:
    arguments = call.named(*PARAMETERS)
    given = arguments.get("dataset")
    collate = call.value("collate_fn", 6)
    loader = Loader(
        given.value if given else UNKNOWN,
        collate,
        {name: argument.value for name, argument in arguments.items()},
        call.text,
        given.place if given else None,
        origin=call.place,
    )
    call.reader.record.loaders.append(loader)
    return loader


@element_of(Loader)
def _batch(reader: Reader, value: Value) -> Value:
    return Unknown(name="batch")


@method(Loader, "__iter__", "__next__")
def _iterate(call: Call) -> Value:
    return call.receiver


@function("torch.utils.data.random_split")
def _split(call: Call) -> Value:
    """Parts of one data set; a Hugging Face data set stays what it is."""
    dataset, lengths = call.value("dataset", 0), call.value("lengths", 1)
    known = operations.known_items(lengths, 8)
    if known is None:
        return Unknown(name="splits")
    return Sequence([dataset for _ in known], "list") if isinstance(dataset, Dataset) else Unknown(name="splits")


@function("torch.utils.data.Subset")
def _subset(call: Call) -> Value:
    return call.value("dataset", 0)
