"""How long batches and steps take, which calls make a device wait, and which operations take the time.

The GPU that a pass ran on, and the most memory that it took there.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median
from typing import Any

from lintrain.evidence.run import DeviceEvidence, ThroughputEvidence
from lintrain.runtime.child.frames import callers_frame, is_users
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import library, loaded

SYNCHRONIZING = ("item", "tolist", "cpu", "numpy", "__repr__", "__float__", "__int__", "__bool__")
WARM_UP = 2
"""The first batches and steps are not timed: libraries set themselves up, and a probe measures other things in them."""
MOST_OPERATORS = 3


class Pace:
    """Times of batches and steps, in their order; without the probe's own work in between."""

    def __init__(self) -> None:
        self.loading: list[float] = []
        self.stepping: list[float] = []
        self._since = 0.0
        self._left_out = 0.0

    def on_batch_request(self) -> None:
        """The loop asks for a batch: the step on the one before is over."""
        if self._since:
            self.stepping.append(self._passed())
        self._starts()

    def on_batch(self) -> None:
        """The loop got a batch."""
        if self._since:
            self.loading.append(self._passed())
        self._starts()

    def _starts(self) -> None:
        self._since, self._left_out = time.perf_counter(), 0.0

    def _passed(self) -> float:
        return time.perf_counter() - self._since - self._left_out

    @contextmanager
    def left_out(self) -> Generator[None]:
        """What happens now is no work of the script."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._left_out += time.perf_counter() - started

    def evidence(
        self, rows: int, tokens: int | None, workers: int, calls: Counter[str], operators: tuple[tuple[str, float], ...]
    ) -> ThroughputEvidence | None:
        """What was timed; None if there were too few batches."""
        loading, stepping = self.loading[WARM_UP:], self.stepping[WARM_UP:]
        # Medians: one slow batch, on a cold cache, would decide a mean.
        if not loading or not stepping or not rows:
            return None
        return ThroughputEvidence(
            rows=rows,
            tokens=tokens,
            batch_seconds=median(loading),
            step_seconds=median(stepping),
            workers=workers,
            batches=min(len(loading), len(stepping)),
            synchronizing={name: calls[name] / len(self.loading) for name in sorted(calls)},
            operators=operators,
        )


@contextmanager
def synchronizing(calls: Counter[str]) -> Generator[None]:
    """Count the calls of the script's own code that read a tensor's values."""
    tensor = library("torch").Tensor
    with replaced(tensor, **{name: _counted(calls, name, getattr(tensor, name)) for name in SYNCHRONIZING}):
        yield


def _counted(calls: Counter[str], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        frame = callers_frame(1)
        # Optimizers and schedulers read values too; what counts is what the script could leave out.
        if frame is not None and is_users(frame.f_code.co_filename):
            calls[name.strip("_")] += 1
        return method(self, *args, **kwargs)

    return read


def top_operators(profile: Any) -> tuple[tuple[str, float], ...]:
    """The operations that took longest by themselves, each with its share of them all."""
    events = [event for event in profile.key_averages() if str(event.key).startswith("aten::")]
    whole = sum(float(event.self_cpu_time_total) for event in events)
    longest = sorted(events, key=lambda event: -float(event.self_cpu_time_total))[:MOST_OPERATORS]
    return tuple((str(event.key), float(event.self_cpu_time_total) / whole) for event in longest) if whole else ()


def new_profile() -> Any:
    """A profile of the CPU that is not started."""
    profiler = library("torch.profiler")
    return profiler.profile(activities=[profiler.ProfilerActivity.CPU])


def measure_device() -> DeviceEvidence | None:
    """The current GPU of torch with the peaks of its allocator since the process began; None if none was used."""
    torch = loaded("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    index = torch.cuda.current_device()
    device = torch.cuda.get_device_properties(index)
    allocated, reserved = torch.cuda.max_memory_allocated(index), torch.cuda.max_memory_reserved(index)
    return DeviceEvidence(str(device.name), int(device.total_memory), int(allocated), int(reserved))
