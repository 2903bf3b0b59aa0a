"""Map-style data sets that torch and torchvision make, and the parts that they are split into."""

from __future__ import annotations

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import Transfer, element_of, family, function, method
from lintrain.interpreter.shapes import integer
from lintrain.libraries.datasets.deriving import derived
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Sequence, Unknown, Value

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


@method(TorchDataset, "__getitem__", "__len__")
def _look(call: Call) -> Value:
    return UNKNOWN


@element_of(TorchDataset)
def _row(reader: Reader, value: Value) -> Value:
    return Unknown(name="row")
