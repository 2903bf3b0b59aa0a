"""The bytes that tensors hold while torch works, counted at every operation."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from lintrain.evidence.run import ResidentModel
from lintrain.runtime.child.library import has, is_mapping, is_row, library


class LiveBytes:
    """Storages that were seen and are still referenced; `peak` is the most since the last `mark`."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._held: dict[int, weakref.ref[Any]] = {}

    def mark(self) -> None:
        """Look for a new peak from here on."""
        self.peak = self.now

    def add(self, value: Any) -> None:
        """Count the storages of all tensors in a result, however it is nested."""
        for tensor in tensors_of(value):
            self._add_storage(tensor, counts=True)

    def leave_out(self, value: Any) -> None:
        """Never count the storages of tensors that were there before, unless they are counted already."""
        for tensor in tensors_of(value):
            self._add_storage(tensor, counts=False)

    def _add_storage(self, tensor: Any, *, counts: bool) -> None:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse tensors have none
            return
        # Views share a storage and have objects of their own in Python: the C++ pointer is the identity.
        key = int(storage._cdata)
        if key in self._held:
            return
        size = int(storage.nbytes()) if counts else 0
        # The callback runs when the last tensor on the storage is gone, which is the moment when its memory is free.
        self._held[key] = weakref.ref(storage, partial(self._drop, key, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _drop(self, key: int, size: int, _reference: Any) -> None:
        if self._held.pop(key, None) is not None:
            self.now -= size


class Counting:
    """What a mode of torch does with every operation: carry it out, and count what it was given and what it gave."""

    def __init__(self, live: LiveBytes) -> None:
        super().__init__()
        self.live = live

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch beneath autograd and autocast, for forward, backward and optimizer alike."""
        # Before the operation: weights and batches were made before the counting began, and are held.
        self.meets(args)
        result = self.carry_out(function, args, kwargs or {})
        self.live.add(result)
        return result

    def meets(self, given: Any) -> None:
        """What an operation is given is held by somebody."""
        self.live.add(given)

    def carry_out(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation itself."""
        return function(*args, **kwargs)


def as_mode(kind: type[Counting], live: LiveBytes) -> Any:
    """A counting mode of the script's own torch."""
    base = library("torch.utils._python_dispatch").TorchDispatchMode
    return type(kind.__name__, (kind, base), {})(live)


@contextmanager
def counted(live: LiveBytes, kind: type[Counting] = Counting) -> Generator[None]:
    """Count everything that this thread does with torch."""
    with as_mode(kind, live):
        yield


def tensors_of(value: Any) -> Iterable[Any]:
    """The tensors in a value."""
    if has(value, "untyped_storage"):
        yield value
        return
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from tensors_of(part)


def size_of(tensor: Any) -> int:
    """The bytes of a tensor's entries."""
    return int(tensor.numel() * tensor.element_size())


def resident_models(modules: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[ResidentModel]:
    """Each model with the weights that none before it has; one trains whose weights an optimizer holds."""
    held = {id(weight) for each in optimizers for group in each.param_groups for weight in group["params"]}
    seen: set[int] = set()
    for module in modules:
        own = [each for each in tensors_in_module(module) if id(each) not in seen]
        # Tied weights and shared encoders exist once in memory: they belong to the first model that has them.
        seen.update(map(id, own))
        if own:
            trains = any(id(weight) in held for weight in own)
            yield ResidentModel(type(module).__name__, sum(map(size_of, own)), trains)


def tensors_in_module(module: Any) -> list[Any]:
    """Its parameters and buffers; those that belong to no module have no buffers."""
    buffers = list(module.buffers()) if has(module, "buffers") else []
    return [*module.parameters(), *buffers]
