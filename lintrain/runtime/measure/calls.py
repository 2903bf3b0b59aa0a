"""One call of a model: what went in, tensor by tensor, so that it can be repeated with one thing changed."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.startup.lazy_dataclass import dataclass

Path = tuple[str | int, ...]
"""The position of a tensor in a call: 0 and its index, or 1 and its keyword, then the path into nested values."""

SHELLS = frozenset({"OptimizedModule", "DistributedDataParallel", "DataParallel", "_FabricModule"})


@dataclass(frozen=True, eq=False)
class Call:
    """A module and its arguments."""

    module: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def tensors(self) -> dict[Path, Any]:
        """Every tensor that goes in."""
        return paths_of((self.args, dict(self.kwargs)))

    def changed(self, new: Mapping[Path, Any]) -> Call:
        """The same call with other tensors; containers are copied, for a model may write into them."""
        args, kwargs = _replaced((self.args, dict(self.kwargs)), new, ())
        return Call(self.module, args, kwargs)

    def given(self, name: str, value: Any) -> Call:
        """The same call with one more keyword."""
        return Call(self.module, self.args, {**self.kwargs, name: value})

    def name_of(self, path: Path) -> str:
        """The name of a tensor: its keyword or key, else the name of the argument in the model's forward."""
        last = path[-1]
        if isinstance(last, str):
            return last
        names = parameters_of(self.module)
        return names[last] if path[0] == 0 and len(path) == 2 and last < len(names) else ""

    @property
    def ids(self) -> Path | None:
        """Where token ids of [rows, tokens] stand."""
        tensors = self.tensors()
        # Without a name the first argument is taken, if it holds whole numbers of [rows, tokens]:
        # `model(ids)` of a plain module.
        named = next((path for path in tensors if path[-1] == "input_ids"), (0, 0))
        found = tensors.get(named)
        return named if found is not None and found.ndim == 2 and is_whole(found) else None

    @property
    def mask(self) -> Path | None:
        """Where the attention mask that belongs to the ids stands."""
        tensors, ids = self.tensors(), self.ids
        shape = tensors[ids].shape if ids is not None else None
        return next((path for path in tensors if self._is_mask(path, tensors[path], shape)), None)

    def _is_mask(self, path: Path, tensor: Any, shape: Any) -> bool:
        return tensor.shape == shape and self.name_of(path) == "attention_mask"

    def rows(self) -> int:
        """The rows of the first tensor with any; 0 if there is none."""
        return next((int(tensor.shape[0]) for tensor in self.tensors().values() if tensor.ndim), 0)

    def of_rows(self, rows: list[int]) -> Call | None:
        """The same call of some rows only; None if a tensor has no entry for each."""
        every, tensors = self.rows(), self.tensors()
        # Positions of [1, tokens] or a graph's edges have no entry for each row; cutting them would ask another
        # question.
        if any(tensor.ndim and tensor.shape[0] != every for tensor in tensors.values()):
            return None
        return self.changed({path: tensor[rows] for path, tensor in tensors.items() if tensor.ndim})


def without_shells(module: Any) -> Any:
    """The script's own module under compilation, replication and Fabric."""
    # By name: importing the classes would load torch's distributed package into every script.
    while type(module).__name__ in SHELLS:
        inner = attribute(module, "_orig_mod", None)
        module = module.module if inner is None else inner
    return module


def parameters_of(module: Any) -> list[str]:
    """The names of the arguments of a model's forward."""
    try:
        return list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):  # a forward in C
        return []


def is_whole(tensor: Any) -> bool:
    """Whether a tensor holds int64 or int32 numbers."""
    torch = library("torch")
    return tensor.dtype in (torch.int64, torch.int32)


def paths_of(value: Any) -> dict[tuple[str | int, ...], Any]:
    """Every tensor in a value, by the way into it."""
    return dict(_tensors(value, ()))


def _parts(value: Any) -> Iterable[tuple[str | int, Any]]:
    if is_mapping(value):
        return value.items()
    return enumerate(value) if is_row(value) else ()


def _tensors(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if library("torch").is_tensor(value):
        yield path, value
        return
    for name, part in _parts(value):
        yield from _tensors(part, (*path, name))


def _replaced(value: Any, new: Mapping[Path, Any], path: Path) -> Any:
    if path in new:
        return new[path]
    if is_mapping(value):
        # Of the same class, since a model may read attributes of a `BatchEncoding`.
        copied: Any = copy.copy(value)
        for name, part in value.items():
            copied[name] = _replaced(part, new, (*path, name))
        return copied
    if is_row(value):
        parts = [_replaced(part, new, (*path, position)) for position, part in enumerate(value)]
        # A named tuple takes its parts one by one.
        return type(value)(*parts) if has(value, "_fields") else type(value)(parts)
    return value
