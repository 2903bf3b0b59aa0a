"""The memory stage of a loop of the script's own: one real step, counted from the end of the step before."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from lintrain.evidence.run import MemoryEvidence, Stage, StageName
from lintrain.runtime.child.library import library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.measure.live_bytes import (
    Counting,
    LiveBytes,
    as_mode,
    resident_models,
    size_of,
    tensors_in_module,
    tensors_of,
)
from lintrain.runtime.measure.projection import fused_attention

TOO_SHORT = "the loop took no further step of the measured optimizer"


class CountingScript(Counting):
    """Counts what the script does with torch, without the watch's own work and what its loader creates."""

    state: LoopState

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """As above, where the script is at work."""
        # On a GPU the loader's work stays in main memory, so it is not part of what the device holds.
        if not self.state.is_on or self.state.is_taking:
            return function(*args, **(kwargs or {}))
        return super().__torch_dispatch__(function, types, args, kwargs)

    def meets(self, given: Any) -> None:
        """Earlier tensors that belong to no model may be the whole data set, of which the device holds one batch."""
        self.live.leave_out(given)


class CountedStep:
    """Opened when an optimizer has stepped, closed when it has stepped again."""

    def __init__(self, run: MeasuredRun, state: LoopState) -> None:
        self._run = run
        self._state = state
        self._live = LiveBytes()
        self._stack = ExitStack()
        self._mode: Any = None
        self._optimizer: Any = None
        self._passes = 0
        self._gradients = 0
        self._casts_on_gpu = False
        self._began = 0.0

    @property
    def is_wanted(self) -> bool:
        """Whether it was requested, and nothing was counted yet."""
        return self._run.is_asked(StageName.MEMORY) and StageName.MEMORY not in self._run.statuses

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped: the same one closes the count, the first one that is measured opens it."""
        if not self.is_wanted:
            return
        # From the end of one step to the end of the next: the first count would miss the optimizer's state, which is
        # made in its first step.
        if self._optimizer is optimizer:
            self._close()
        elif self._optimizer is None and self._run.passed(StageName.STEP):
            self._open(optimizer)

    def on_step_start(self, optimizer: Any, *, has_closure: bool) -> None:
        """An optimizer is about to step: its passes are over, but for those that a closure makes."""
        if self._optimizer is optimizer and not has_closure:
            self._passes, self._gradients = self._live.peak, self._gradients_now()
            self._live.mark()

    def on_forward(self) -> None:
        """A model was called on a batch. What the script casts on a GPU only is not cast here."""
        if self._mode is not None:
            # A view would bring the storage of the whole data set, of which the device holds one batch.
            self._live.add([tensor for tensor in self._state.iteration.tensors() if _is_whole(tensor)])
        self._casts_on_gpu = self._casts_on_gpu or bool(library("torch").is_autocast_enabled())

    def on_abort(self) -> None:
        """Training is over."""
        if self.is_wanted:
            self._stop()
            self._run.skip(StageName.MEMORY, TOO_SHORT)

    def _open(self, optimizer: Any) -> None:
        self._optimizer, self._began = optimizer, time.perf_counter()
        self._live.add([*self._weights(), *self._all_gradients(), *self._states()])
        self._mode = as_mode(CountingScript, self._live)
        self._mode.state = self._state
        # What attention keeps for its backward pass on a CPU is not what a fused kernel of a GPU keeps.
        if self._run.session.device_memory is not None:
            self._stack.enter_context(fused_attention())
        self._mode.__enter__()
        self._live.mark()

    def _stop(self) -> None:
        """Remove the mode, unless another one is on top of it."""
        # Modes are a stack: leaving ours below one of the script's would break both.
        if self._mode is not None and _current() is self._mode:
            self._mode.__exit__(None, None, None)
        self._stack.close()
        self._mode = None

    def _close(self) -> None:
        self._stop()
        if self._casts_on_gpu:
            self._run.skip(StageName.MEMORY, "autocast applies on a GPU and not on this CPU")
            return
        rows = self._state.iteration.rows()
        if not rows:
            self._run.skip(StageName.MEMORY, "the rows of the batch cannot be counted")
            return
        self._run.measured(memory=self._evidence(rows))
        self._run.record(Stage.passed(StageName.MEMORY, time.perf_counter() - self._began))

    def _evidence(self, rows: int) -> MemoryEvidence:
        weights, state = sum(map(size_of, self._weights())), sum(map(size_of, self._states()))
        fixed = weights + (self._gradients or self._gradients_now()) + state
        step = self._live.peak if self._passes else 0
        passes = self._passes or self._live.peak
        device = self._run.session.device_memory
        return MemoryEvidence(
            method="counted",
            device=device,
            peak=max(passes, step),
            rows=rows,
            tokens=self._state.iteration.tokens(),
            weights=weights,
            gradients=fixed - weights - state,
            optimizer=state,
            activations=max(0, max(passes, step) - fixed),
            fixed=fixed,
            in_step=step > passes,
            largest_batch=_largest(device, fixed, passes, step, rows) if device is not None else None,
            models=tuple(resident_models(self._modules(), self._run.optimizers)),
            optimizer_name=type(self._optimizer).__name__,
        )

    def _modules(self) -> list[Any]:
        called = [forward.module for forward in self._state.iteration.forwards]
        return [*{id(each): each for each in [self._run.model, *called]}.values()]

    def _weights(self) -> list[Any]:
        """Parameters and buffers of every model at work, and other tensors that optimizers hold."""
        held = [each for model in self._modules() for each in tensors_in_module(model)]
        groups = [group for optimizer in self._run.optimizers for group in optimizer.param_groups]
        held += [weight for group in groups for weight in group["params"]]
        return [*{id(each): each for each in held}.values()]

    def _all_gradients(self) -> list[Any]:
        return [weight.grad for weight in self._weights() if weight.is_leaf and weight.grad is not None]

    def _gradients_now(self) -> int:
        return sum(map(size_of, self._all_gradients()))

    def _states(self) -> list[Any]:
        states = [state for optimizer in self._run.optimizers for state in optimizer.state.values()]
        return [tensor for state in states for tensor in tensors_of(state)]


def _largest(device: int, fixed: int, passes: int, step: int, rows: int) -> int | None:
    """The rows that fit, if each row needs the same activations; None if a row adds nothing that could be counted."""
    # Weights, gradients and state alone do not fit, whatever the number of rows.
    if step > device:
        return 0
    each = (passes - fixed) / rows
    return int(max(0, device - fixed) / each) if each > 0 else None


def _is_whole(tensor: Any) -> bool:
    """Whether a tensor is no view of a larger one."""
    return int(tensor.untyped_storage().nbytes()) == size_of(tensor)


def _current() -> Any:
    return library("torch.utils._python_dispatch")._get_current_dispatch_mode()
