"""Tensors without values in place of a script's own: models, batches and optimizers that compute shapes only."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.live_bytes import Counting

UNKNOWN_LENGTHS = frozenset({"aten::nonzero", "aten::masked_select", "aten::_local_scalar_dense"})


class CountingShapes(Counting):
    """Operations whose result depends on values that are not there give the most that they could."""

    def carry_out(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation itself, or the largest tensor that it can give."""
        # Without the overload: `aten::index.Tensor` and its variants depend on values alike.
        name = function._schema.name
        if name in UNKNOWN_LENGTHS:
            return _most(name, args[0])
        if name in ("aten::index", "aten::_unsafe_index") and len(args) > 1:
            args = (args[0], [_whole(index) for index in args[1]], *args[2:])
        return function(*args, **kwargs)


def _most(name: str, given: Any) -> Any:
    torch = library("torch")
    if name == "aten::nonzero":
        return torch.zeros(given.numel(), given.dim(), dtype=torch.int64)
    if name == "aten::masked_select":
        return torch.zeros(given.numel(), dtype=given.dtype)
    if given.dtype == torch.bool:
        return False
    return 1.0 if given.dtype.is_floating_point else 1


def _whole(index: Any) -> Any:
    """An index by truth values as one by numbers, as if all were true."""
    torch = library("torch")
    if index is None or index.dtype not in (torch.bool, torch.uint8):
        return index
    return torch.zeros(index.numel(), dtype=torch.int64)


class Fakes:
    """The fakes of parameters and buffers by the identity of the real ones; shared weights have one fake."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self._torch = library("torch")
        # A model may hold constants as plain tensors, neither parameters nor buffers; they are turned into fakes
        # where they are used.
        self.mode = library("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)
        self._modules = list({id(part): part for module in modules for part in module.modules()}.values())
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # identities are those of living objects

    def __getitem__(self, real: Any) -> Any:
        """The fake of a tensor; a parameter's is one, too, and trains as it does."""
        if id(real) not in self._made:
            with self.mode:
                fake = self._torch.empty_strided(real.shape, real.stride(), dtype=real.dtype)
                if isinstance(real, self._torch.nn.Parameter):
                    fake = self._torch.nn.Parameter(fake, requires_grad=real.requires_grad)
            self._made[id(real)] = fake
            self._kept.append(real)
        return self._made[id(real)]

    def __contains__(self, real: Any) -> bool:
        return id(real) in self._made

    @property
    def all(self) -> list[Any]:
        """Every fake made until now."""
        return list(self._made.values())

    @contextmanager
    def in_place(self) -> Generator[None]:
        """The modules hold fakes meanwhile, and exactly what they held before afterwards."""
        before = [(part, dict(part._parameters), dict(part._buffers)) for part in self._modules]
        try:
            for part, parameters, buffers in before:
                self._put(part._parameters, parameters)
                self._put(part._buffers, buffers)
            yield
        finally:
            for part, parameters, buffers in before:
                part._parameters.update(parameters)
                part._buffers.update(buffers)

    def _put(self, owner: dict[str, Any], tensors: dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            if tensor is not None:
                owner[name] = self[tensor]

    def optimizer(self, real: Any) -> Any:
        """The same optimizer on fakes, before its first step."""
        kind: Any = cast("Any", type(real))
        # `__init__` of an optimizer checks its parameters' values, and registers hooks on them.
        fake: Any = kind.__new__(kind)
        fake.__dict__.update(real.__dict__)
        groups: list[dict[str, Any]] = real.param_groups
        fake.param_groups = [{**group, "params": [self[each] for each in group["params"]]} for group in groups]
        fake.state = library("collections").defaultdict(dict)
        return fake

    def batch(self, value: Any, had: int, rows: int) -> Any:
        """A batch of so many rows made of one that had others."""
        if hasattr(value, "untyped_storage"):
            shape = [rows if location == 0 and length == had else length for location, length in enumerate(value.shape)]
            with self.mode:
                return self._torch.empty(shape, dtype=value.dtype)
        if is_mapping(value):
            return {name: self.batch(part, had, rows) for name, part in value.items()}
        if is_row(value):
            parts = [self.batch(part, had, rows) for part in value]
            return parts if isinstance(value, list) else tuple(parts)
        return value
