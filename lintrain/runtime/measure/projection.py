"""A whole training step on tensors without values: what it holds at its peak, and the largest batch that fits.

Tensors without values in place of a script's own: models, batches and optimizers that compute shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import has, is_mapping, is_row, library
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.live_bytes import Counting, LiveBytes, counted, size_of, tensors_of
from lintrain.startup.lazy_dataclass import dataclass

MOST_TRIALS = 8
MOST_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes in one step, in its passes and in the optimizer's part, and what lies there at their ends."""

    passes: int
    step: int
    gradients: int
    optimizer: int

    @property
    def whole(self) -> int:
        """The larger one."""
        return max(self.passes, self.step)


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, as a framework hands it over.

    `run_batch` is its forward and backward pass on a batch; `finish` what it does with the gradients before the
    optimizer steps; `had` are the rows of `batch`; `accumulates` says that gradients of several batches add up.
    """

    modules: tuple[Any, ...]
    optimizer: Any
    batch: Any
    had: int
    run_batch: Callable[[Any], Any]
    finish: Callable[[], Any]
    accumulates: bool = False


class Projection:
    """Steps on fakes; the first one makes the optimizer's state, the peak is that of a later one."""

    def __init__(self, training: Training, *, for_gpu: bool) -> None:
        self._training = training
        self._for_gpu = for_gpu
        self._live = LiveBytes()
        self._fakes = Fakes(training.modules)
        self._optimizer: Any = None
        self._known: dict[int, Peak] = {}

    @contextmanager
    def open(self) -> Generator[Projection]:
        """The modules hold fakes meanwhile; every `peak` has to be asked for in here."""
        with ExitStack() as stack:
            # Order: the modules get their fakes before the mode is entered, and their own tensors back after it is
            # left.
            for context in (same_random_numbers(), self._fakes.in_place(), self._fakes.mode):
                stack.enter_context(context)
            self._optimizer = self._fakes.optimizer(self._training.optimizer)
            if self._for_gpu:
                stack.enter_context(fused_attention())
                _step_at_once(self._optimizer)
            self._live.add(self._fakes.all)
            yield self

    @property
    def weights(self) -> int:
        """Bytes of all weights and buffers."""
        return sum(size_of(fake) for fake in self._fakes.all)

    def peak(self, rows: int) -> Peak:
        """The peak of a step on so many rows; the first one asked for costs one step more."""
        if rows not in self._known:
            with counted(self._live, CountingShapes):
                # The optimizer's state appears in its first step: the peak of that one is too low by the state, so a
                # second step is taken.
                if not self._optimizer.state:
                    self._step(rows)
                self._known[rows] = self._step(rows)
        return self._known[rows]

    def _step(self, rows: int) -> Peak:
        training = self._training
        batch = self._fakes.batch(training.batch, training.had, rows)
        self._live.mark()
        self._live.add(batch)
        # With accumulation the peak is in a later batch, when gradients of earlier ones lie there as well.
        for _ in range(2 if training.accumulates else 1):
            training.run_batch(batch)
        passes, gradients = self._live.peak, self._gradients()
        self._live.mark()
        training.finish()
        self._optimizer.step()
        step = self._live.peak
        self._optimizer.zero_grad()
        return Peak(passes, step, gradients, self._state())

    def _gradients(self) -> int:
        return sum(size_of(fake.grad) for fake in self._fakes.all if fake.grad is not None)

    def _state(self) -> int:
        states: Iterable[Any] = self._optimizer.state.values()
        return sum(size_of(tensor) for state in states for tensor in tensors_of(state))

    def largest_batch(self, device: int, had: int) -> int | None:
        """The most rows whose step fits a device: 0 for none, None if even the largest tried number fits."""
        first = self.peak(had)
        if self.weights + first.gradients + first.optimizer > device:
            return 0
        fits, too_many = 0, None
        rows = had
        for _ in range(MOST_TRIALS):
            if self.peak(rows).whole <= device:
                fits = rows
            else:
                too_many = rows
            rows = self._next(device, fits, too_many)
            # The secant method: memory grows almost linearly in the rows, so three or four trials are enough.
            if rows in (fits, too_many) or fits >= MOST_ROWS:
                break
        return fits if too_many is not None else None

    def _next(self, device: int, fits: int, too_many: int | None) -> int:
        """Where the line through the two peaks known best meets the device; between what fits and what does not."""
        if len(self._known) < 2:
            return fits * 2 if too_many is None else max(1, too_many // 2)
        low, high = sorted(sorted(self._known, key=lambda rows: abs(self._known[rows].whole - device))[:2])
        slope = (self._known[high].whole - self._known[low].whole) / (high - low)
        guess = int(low + (device - self._known[low].whole) / slope) if slope > 0 else MOST_ROWS
        return min(max(guess, fits + 1), MOST_ROWS if too_many is None else too_many - 1)


def _step_at_once(optimizer: Any) -> None:
    """On a GPU torch's optimizers process all parameters at once by default, and hold more."""
    for group in optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


@contextmanager
def fused_attention() -> Generator[None]:
    """Attention as a GPU's kernels hold it: they drop out without keeping the weights, which the CPU's do not."""
    functional = library("torch.nn.functional")
    attend = functional.scaled_dot_product_attention

    def without_dropout(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *rest: Any, **others: Any
    ) -> Any:
        return attend(query, key, value, attn_mask, 0.0, *rest, **others)

    with replaced(functional, scaled_dot_product_attention=without_dropout):
        yield


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
        if has(value, "untyped_storage"):
            shape = [rows if location == 0 and length == had else length for location, length in enumerate(value.shape)]
            with self.mode:
                return self._torch.empty(shape, dtype=value.dtype)
        if is_mapping(value):
            return {name: self.batch(part, had, rows) for name, part in value.items()}
        if is_row(value):
            parts = [self.batch(part, had, rows) for part in value]
            return parts if isinstance(value, list) else tuple(parts)
        return value
