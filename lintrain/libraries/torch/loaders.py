"""Data loaders of torch: what they are given, and the batches that a loop gets of them."""

from __future__ import annotations

import re
from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import element_of, function, method, operated, subscript_of, unpacked
from lintrain.interpreter.shapes import ANY, integer
from lintrain.libraries.torch.collation import collated, row_of, takes_one_row
from lintrain.model.location import Location
from lintrain.pipeline.values.counts import Count, computed
from lintrain.pipeline.values.loading import Batch, Collated, Loader
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Slice, Unknown, Value, is_missing
from lintrain.pipeline.values.tensors import Shape
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


@function("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
def _loader(call: Call) -> Value:
    arguments = call.named(*PARAMETERS)
    given = arguments.get("dataset")
    loader = Loader(
        given.value if given else UNKNOWN,
        call.value("collate_fn", 6),
        {name: argument.value for name, argument in arguments.items()},
        call.text,
        given.location if given else None,
        {name: argument.location for name, argument in arguments.items()},
        not call.is_open and "**" not in arguments,
        origin=call.location,
    )
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


@method(Loader, "__iter__", "__next__")
def _iterate(call: Call) -> Value:
    return call.receiver


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
    # A slice of a batch is one thing for all slices: some of its rows.
    return UNKNOWN if not isinstance(key, Slice) else dispatch.child(reader, value, "[:]")


def _parts(reader: Reader, batch: Value) -> list[Tensor | None]:
    """The tensors of a batch that torch puts together itself, None for what is not known; empty where nothing is."""
    loader = batch.loader if isinstance(batch, Batch) else None
    # The default collate function stacks tuples item by item. Any other one, and rows that are
    # dictionaries, are not followed here.
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
