"""Restore objects: every value that can be reached from them, their tensors, and all random numbers."""

from __future__ import annotations

import os
import types
import warnings
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any, cast

from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.library import loaded
from lintrain.runtime.child.random_state import same_random_numbers
from lintrain.runtime.in_process.containers import entries_of, is_container, refill
from lintrain.runtime.in_process.tensors import keep_random_stream, keep_tensor

MOST_ENTRIES = 10_000
"""The entries of longer containers are data: the container is restored, its entries are not inspected."""

LEFT_ALONE = frozenset(
    {
        *("IPython", "PIL", "_io", "asyncio", "concurrent", "datasets", "huggingface_hub", "io", "logging"),
        *("multiprocessing", "numpy", "pandas", "pathlib", "pyarrow", "queue", "re", "rich", "safetensors", "socket"),
        *("subprocess", "threading", "tokenizers", "tqdm", "wandb", "weakref"),
    }
)
"""Packages whose objects hold data, files or threads, and no part of the state of a run."""

PLAIN = (str, int, float, complex, bool, bytes, bytearray, type(None), type, Enum, types.ModuleType, types.FunctionType)

Restore = Callable[[], None]


@contextmanager
def as_before(*roots: Any) -> Generator[None]:
    """Let everything that can be reached from some objects be as it was, whatever happens in between.

    Gradients are set aside: inside, no tensor has any. Costs the memory of one copy of all reached tensors outside of
    datasets. Warnings are not shown inside. What a stream that can be read only once has given is not given back.
    """
    with same_random_numbers(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        environment, kept = dict(os.environ), Kept(roots)
        try:
            yield
        finally:
            kept.restore()
            _restore_environment(environment)


def _restore_environment(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


class Kept:
    """The values of everything that can be reached from some objects, as they are now."""

    def __init__(self, roots: tuple[Any, ...]) -> None:
        self._restores: list[Restore] = []
        self._seen: dict[int, Any] = {}  # keeps what it holds alive, so that no other object gets its identity
        # A queue and no recursion: linked modules are nested deeper than Python's stack allows.
        self._waiting: deque[tuple[Any, bool]] = deque((root, False) for root in roots)
        while self._waiting:
            self._keep(*self._waiting.popleft())

    def restore(self) -> None:
        """Put everything back, the outermost last, so that it finds its parts as they were."""
        for restore in reversed(self._restores):
            restore()

    def _keep(self, value: Any, is_data: bool) -> None:
        # Objects refer to each other in circles: each is kept once.
        if isinstance(value, PLAIN) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        torch = loaded("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            if not is_data:
                self._restores.append(keep_tensor(value))
                self._reach((value._backward_hooks, vars(value)), is_data)
            return
        # Tensors of a data set are not copied: they may be larger than the memory, and a step does not change them.
        is_data = is_data or _is_dataset(value)
        stream = keep_random_stream(value)
        if stream is not None:
            self._restores.append(stream)
        elif not self._keep_container(value, is_data):
            self._keep_object(value, is_data)

    def _reach(self, values: Any, is_data: bool) -> None:
        self._waiting.extend((value, is_data) for value in values)

    def _keep_container(self, value: Any, is_data: bool) -> bool:
        """Whether it is one; the attributes of one of a class of its own are kept too."""
        if isinstance(value, tuple | frozenset):
            self._reach_entries(cast("tuple[Any, ...]", value), is_data)
            return True
        if not is_container(value):
            return False
        before = entries_of(value)
        self._restores.append(lambda: refill(value, before))
        self._reach_entries(before.values() if is_mapping(before) else before, is_data)
        if hasattr(value, "__dict__"):
            self._keep_object(value, is_data)
        return True

    def _reach_entries(self, entries: Any, is_data: bool) -> None:
        if len(entries) <= MOST_ENTRIES:
            self._reach(entries, is_data)

    def _keep_object(self, value: Any, is_data: bool) -> None:
        if isinstance(value, types.MethodType):
            self._reach((value.__self__,), is_data)
            return
        if type(value).__module__.partition(".")[0] in LEFT_ALONE:
            return
        attributes: Any = getattr(value, "__dict__", None)
        if is_container(attributes):
            before = entries_of(attributes)
            self._restores.append(lambda: refill(attributes, before))
            self._reach(before.values(), is_data)
        self._keep_slots(value, is_data)

    def _keep_slots(self, value: Any, is_data: bool) -> None:
        names = [name for kind in type(value).__mro__ for name in _slots_of(kind)]
        before = {name: getattr(value, name) for name in names if hasattr(value, name)}
        if before:
            self._restores.append(lambda: _reset(value, before))
            self._reach(before.values(), is_data)


def _slots_of(kind: type) -> tuple[str, ...]:
    slots: Any = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _is_dataset(value: Any) -> bool:
    data = loaded("torch.utils.data")
    return data is not None and isinstance(value, data.Dataset)


def _reset(value: Any, before: dict[str, Any]) -> None:
    for name, held in before.items():
        if getattr(value, name, None) is not held:
            object.__setattr__(value, name, held)
