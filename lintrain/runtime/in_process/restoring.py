"""Restore objects: every value that can be reached from them, their tensors, and all random numbers.

Dictionaries, lists, sets and queues, also of classes of their own, copied and filled again.

Restore tensors and random generators.
"""

from __future__ import annotations

import os
import random
import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any, cast

from lintrain.runtime.child.library import attribute, has, is_mapping, library, loaded
from lintrain.runtime.child.surroundings import same_random_numbers

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
        # Inside the process of a user, a warning that is shown once would be used up for their own run.
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
        # Outermost last: refilling a container finds parts that have their own values again.
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
        # These cannot change, but what they hold can.
        if isinstance(value, tuple | frozenset):
            self._reach_entries(cast("tuple[Any, ...]", value), is_data)
            return True
        if not is_container(value):
            return False
        before = entries_of(value)
        self._restores.append(lambda: refill(value, before))
        self._reach_entries(before.values() if is_mapping(before) else before, is_data)
        if has(value, "__dict__"):
            self._keep_object(value, is_data)
        return True

    def _reach_entries(self, entries: Any, is_data: bool) -> None:
        if len(entries) <= MOST_ENTRIES:
            self._reach(entries, is_data)

    def _keep_object(self, value: Any, is_data: bool) -> None:
        # A method holds its object: a callback given as `self.on_step` leads to the state that it changes.
        if isinstance(value, types.MethodType):
            self._reach((value.__self__,), is_data)
            return
        if type(value).__module__.partition(".")[0] in LEFT_ALONE:
            return
        attributes: Any = attribute(value, "__dict__", None)
        if is_container(attributes):
            before = entries_of(attributes)
            self._restores.append(lambda: refill(attributes, before))
            self._reach(before.values(), is_data)
        self._keep_slots(value, is_data)

    def _keep_slots(self, value: Any, is_data: bool) -> None:
        # Slots belong to the class that names them, and `vars` knows none of them.
        names = [name for kind in type(value).__mro__ for name in _slots_of(kind)]
        before = {name: getattr(value, name) for name in names if has(value, name)}
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
        # Only what changed is written: a frozen dataclass, or a property of the same name, is left alone.
        if attribute(value, name, None) is not held:
            object.__setattr__(value, name, held)


KINDS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
"""The methods of these are called, not those of a subclass, which may do more than hold its entries."""


def is_container(value: object) -> bool:
    """Whether a value holds entries that can be taken out and put in again."""
    return isinstance(value, KINDS)


def entries_of(container: Any) -> Any:
    """A plain copy: a dictionary of a dictionary, else a list."""
    kind = _kind_of(container)
    return dict(kind.items(container)) if _has_keys(kind) else list(kind.__iter__(container))


def refill(container: Any, before: Any) -> None:
    """Put the entries of a copy back, where something changed."""
    if _is_same(entries_of(container), before):
        return
    kind = _kind_of(container)
    # Filled in place: the user's code holds references to the container itself.
    kind.clear(container)
    put = kind.extend if has(kind, "extend") else kind.update
    put(container, before)


def _kind_of(container: Any) -> Any:
    return next(kind for kind in KINDS if isinstance(container, kind))


def _has_keys(kind: Any) -> bool:
    return kind in (OrderedDict, dict)


def _is_same(now: Any, before: Any) -> bool:
    """The same objects in the same order, keys and values."""
    if len(now) != len(before):
        return False
    if not is_mapping(now):
        return all(one is other for one, other in zip(now, before, strict=True))
    pairs = zip(now.items(), before.items(), strict=True)
    return all(key is other and value is held for (key, value), (other, held) in pairs)


RestoreTensor = Callable[[], None]


def keep_tensor(tensor: Any) -> RestoreTensor:
    """Set the gradient aside; give values, storage, gradient, hooks and `requires_grad` back afterwards."""
    # A tensor inside of a graph is computed again; one without values has none to restore.
    if not tensor.is_leaf or tensor.is_meta:
        return _nothing
    grad, requires_grad, hooks = tensor.grad, tensor.requires_grad, tensor._backward_hooks
    after: Any = attribute(tensor, "_post_accumulate_grad_hooks", None)
    tensor.grad = None
    data = tensor.data  # the same storage: holds it where the tensor gets another
    values = data.clone()

    def restore() -> None:
        with library("torch").no_grad():
            if not _is_same_tensor(data, values):
                data.copy_(values)
            # A Trainer moves its model, `module.half()` replaces the storage: the old one is put
            # back, and not a copy of it.
            if tensor.device != data.device or tensor.dtype != data.dtype or tensor.data_ptr() != data.data_ptr():
                tensor.data = data
        if tensor.requires_grad != requires_grad:
            tensor.requires_grad_(requires_grad)
        tensor.grad = grad
        if tensor._backward_hooks is not hooks:
            tensor._backward_hooks = hooks
        if attribute(tensor, "_post_accumulate_grad_hooks", None) is not after:
            tensor._post_accumulate_grad_hooks = after

    return restore


def _is_same_tensor(data: Any, values: Any) -> bool:
    """Equal to the last bit; a NaN equals nothing, and is written again."""
    return bool(data.shape == values.shape and data.equal(values))


def _nothing() -> None:
    return


def keep_random_stream(value: Any) -> RestoreTensor | None:
    """How to put a generator of random numbers back; None for anything else."""
    torch, numpy = loaded("torch"), loaded("numpy.random")
    # A generator of its own is reached through the objects; the global ones are restored in `as_before`.
    if isinstance(value, random.Random):
        state = value.getstate()
        return lambda: value.setstate(state)
    if torch is not None and torch.Generator in type(value).__mro__:  # `isinstance` takes 4 ms (torch 2.13)
        tensor = value.get_state()
        return lambda: _set(value, tensor)
    if numpy is not None and isinstance(value, numpy.Generator):
        bits = value.bit_generator
        held = bits.state
        return lambda: setattr(bits, "state", held)
    if numpy is not None and isinstance(value, numpy.RandomState):
        legacy = value.get_state()
        return lambda: value.set_state(legacy)
    return None


def _set(generator: Any, state: Any) -> None:
    generator.set_state(state)
