"""Where the first NaN or infinity of a loss comes from: the operation and its line, in a second run of the script.

A mode of torch sees every operation. One that makes a number that is not finite is remembered on its result, and
results of that keep it, up to the loss: -inf in a mask that a softmax makes finite is not on that way.

Which rows of a batch make its loss NaN or infinite, and their labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import NonFiniteOrigin, NonFiniteRows
from lintrain.model.location import Location
from lintrain.runtime.child.frames import code_at, frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.measure.seen import LossCall
from lintrain.startup.lazy_dataclass import dataclass

ORIGIN = "lintrain_origin"
"""The attribute of a tensor with the operation that its first NaN or infinity comes from."""


@dataclass(frozen=True, eq=False)
class _Made:
    """An origin, and whether NaN was made there, or only an infinity."""

    origin: NonFiniteOrigin
    is_nan: bool


class NonFiniteTrace:
    """Remembers where numbers stop being finite; `report` receives the origin of the first loss that is not."""

    def __init__(self, report: Callable[[NonFiniteOrigin], None]) -> None:
        self._report = report
        self._is_reported = False
        self._numpy: NonFiniteOrigin | None = None

    def install(self, hooks: AfterImport) -> None:
        """Watch torch and NumPy as soon as the script imports them."""
        hooks.add("torch", lambda torch: self.mode(torch).__enter__())
        hooks.add("numpy", self._watch_numpy)

    def mode(self, torch: Any) -> Any:
        """The mode of torch that sees its operations."""
        sees = self._sees

        class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc] # a class of the script's torch
            def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return sees(function, args, kwargs or {})

        return Mode()

    def _watch_numpy(self, numpy: Any) -> None:
        numpy.seterrcall(self._on_numpy)
        numpy.seterr(divide="call", invalid="call")

    def _on_numpy(self, kind: str, _flag: int) -> None:
        location = frame_location(users_frame())
        if self._numpy is None and location is not None:
            cause = "a division by 0 in NumPy" if kind.startswith("divide") else "0/0 or another invalid value in NumPy"
            self._numpy = NonFiniteOrigin(kind, location, code_at(location), cause)

    def _sees(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = attribute(function, "__name__", "")
        if name == "backward" and args and not self._is_reported:
            self._on_backward(args[0])
        result = function(*args, **kwargs)
        if not self._is_reported:
            # In-place operations return nothing, or what they wrote into.
            for tensor in tensors(args[:1] if result is None else result):
                self._mark(tensor, name, args, kwargs)
        return result

    def _on_backward(self, loss: Any) -> None:
        made = attribute(loss, ORIGIN, None)
        if made is not None and not _is_finite(loss):
            self._is_reported = True
            self._report(made.origin)

    def _mark(self, tensor: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _is_finite(tensor):
            return
        is_nan = bool(tensor.detach().isnan().any())
        own = attribute(tensor, ORIGIN, None)
        # Known from before: an operation gave back what it got, or wrote into it.
        if own is not None and (own.is_nan or not is_nan):
            return
        given = [each for each in tensors((args, kwargs)) if each is not tensor]
        bad = [each for each in given if not _is_finite(each)]
        known = next((made for each in bad if (made := attribute(each, ORIGIN, None)) is not None), None)
        has_nan = any(bool(each.detach().isnan().any()) for each in bad)
        # NaN out of infinities is made here: 0 times infinity, or a softmax over nothing but -inf.
        if bad and (has_nan or not is_nan):
            made = known or _Made(self._first_seen(name, is_given=True), is_nan)
        else:
            before = known.origin.location if known is not None else None
            made = _Made(self._first_seen(name, given=given, before=before), is_nan)
        # A sparse or a subclassed tensor may take no attribute.
        if has(tensor, "__dict__"):
            setattr(tensor, ORIGIN, made)

    def _first_seen(
        self, name: str, *, given: list[Any] | None = None, before: Location | None = None, is_given: bool = False
    ) -> NonFiniteOrigin:
        if self._numpy is not None and not given:
            return self._numpy
        location = frame_location(users_frame())
        cause = "its input holds them already" if is_given or not given else cause_of(name, given)
        return NonFiniteOrigin(name.strip("_"), location, code_at(location), cause, before)


DIVISIONS = frozenset(
    {"div", "true_divide", "divide", "__truediv__", "div_", "__itruediv__", "reciprocal", "__rtruediv__"}
)
LOGARITHMS = frozenset({"log", "log2", "log10", "log1p", "log_"})


def cause_of(name: str, given: list[Any]) -> str:
    """Why an operation on finite numbers gives one that is not, as far as its inputs show it."""
    last = given[-1].detach()
    zeros, count = int((last == 0).sum()), last.numel()
    negative = int((last < 0).sum())
    if name in DIVISIONS and zeros:
        return f"a division by 0: {_counted(zeros, count)} divisors"
    if name in LOGARITHMS and (zeros or negative):
        return f"the logarithm of {'0' if zeros else 'negative numbers'}: {_counted(zeros or negative, count)}"
    if name in ("sqrt", "rsqrt", "sqrt_") and (negative or zeros):
        return f"the root of {'negative numbers' if negative else '0'}: {_counted(negative or zeros, count)}"
    if name in ("mean", "std", "var") and count < 2:
        return f"over {count} numbers" if count != 1 else "over a single number"
    edges = [number for each in given if each.numel() for number in _finite_edges(each)]
    return f"on numbers from {min(edges):.3g} to {max(edges):.3g}" if edges else "on no finite number"


MOST_ROWS = 8
MOST_LABELS = 4


def non_finite_rows(calls: Sequence[LossCall], output: Any, batch: Any) -> NonFiniteRows | None:
    """The rows of a batch that make its loss NaN or infinite: by the loss of each, else by outputs or inputs."""
    for call in calls:
        if (found := _rows_of_loss(call)) is not None:
            return found
    target = next((each.target for each in calls if each.target.ndim == 1), _labels_of(batch))
    for tensor in (*tensors(output), *tensors(batch)):
        if tensor.ndim > 1 and (found := _described(_are_bad(tensor, len(tensor)), target)) is not None:
            return found
    return None


def _labels_of(batch: Any) -> Any:
    labels: Any = batch.get("labels") if is_mapping(batch) else batch[-1] if is_row(batch) and batch else None
    return labels if attribute(labels, "ndim", 0) == 1 else None


def _rows_of_loss(call: LossCall) -> NonFiniteRows | None:
    if not has(call.result, "isfinite") or bool(call.result.detach().isfinite().all()):
        return None
    function = getattr(library("torch.nn.functional"), call.name)
    try:
        with library("torch").no_grad():
            each = function(call.input.detach(), call.target, *call.rest, **{**call.options, "reduction": "none"})
    except Exception:  # noqa: BLE001 - a reduction by position, or a function that has none
        return None
    rows = call.target.shape[0] if call.target.ndim else 1
    ignored = call.options.get("ignore_index", -100)
    if call.name in ("cross_entropy", "nll_loss") and bool((call.target == ignored).all()):
        return NonFiniteRows((), 0, rows, all_ignored=True)
    return _described(_are_bad(each, rows), call.target) if each.ndim else None


def _are_bad(tensor: Any, rows: int) -> Any:
    return ~tensor.detach().isfinite().reshape(rows, -1).all(dim=1)


def _described(bad: Any, target: Any) -> NonFiniteRows | None:
    count = int(bad.sum())
    if not count:
        return None
    numbers = tuple(int(row) for row in bad.nonzero().flatten()[:MOST_ROWS])
    found = NonFiniteRows(numbers, count, len(bad))
    if target is None or target.is_floating_point() or target.ndim != 1 or len(target) != len(bad):
        return found
    theirs = sorted({int(label) for label in target[bad]})
    others = {int(label) for label in target[~bad]}
    return replace(found, labels=tuple(theirs[:MOST_LABELS]), are_theirs=not others & set(theirs))


def _counted(some: int, count: int) -> str:
    return f"{some} of {count}"


def _finite_edges(tensor: Any) -> tuple[float, ...]:
    finite = tensor.detach()[library("torch").isfinite(tensor.detach())]
    return (float(finite.min()), float(finite.max())) if finite.numel() else ()


def _is_finite(tensor: Any) -> bool:
    if tensor.layout is not library("torch").strided:
        return True
    numbers = tensor.detach()
    return math.isfinite(numbers.sum()) or bool(library("torch").isfinite(numbers).all())


def tensors(value: Any) -> Iterator[Any]:
    """The float tensors in a value, however it is nested."""
    if has(value, "is_floating_point") and has(value, "detach"):
        if value.is_floating_point() and not value.is_meta:
            yield value
        return
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from tensors(part)
