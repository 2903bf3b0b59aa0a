"""Data loaders of torch: what they are given, and the batches that a loop gets of them."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import element_of, function, method
from lintrain.libraries.torch.collation import collated
from lintrain.pipeline.values.loading import Batch, Collated, Loader
from lintrain.pipeline.values.python import UNKNOWN, Value

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
