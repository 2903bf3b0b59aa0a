"""What a loop does with its losses and gradients: which it divides and clips, and which graphs outlive their batch."""

from __future__ import annotations

import inspect
import math
import weakref
from collections import Counter
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.loop.ledger import Ledger

LAUNCHERS = ("/accelerate/", "/lightning/", "/lightning_fabric/", "/pytorch_lightning/", "/deepspeed/")
SCALES = ("DivBackward0", "MulBackward0")


class Mark:
    """Lives as long as the graph that it is hooked into."""

    def __call__(self, *gradients: Any) -> None:
        """Leave the gradients as they are."""


class Effects:
    """Counts of effects, by the names of the fields of `LoopEvidence`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.per_step: list[int] = []  # backward passes that each step used
        self.rates: list[float] = []  # of the first group, at each step
        self.ledger = Ledger()
        self.scale = 1.0
        self.is_scaled = False
        self._marks: list[weakref.ref[Mark]] = []
        self._waiting: list[list[str]] = []  # the last operations of each loss since the last step

    def on_backward_start(self, loss: Any) -> None:
        """Attach a mark to the graph of the backward pass; that of an earlier batch may still be alive."""
        # The mark hangs on the graph and dies with it. One graph alive is normal (the loss variable of the last batch
        # still holds it), two mean that losses are collected with their graphs.
        alive = sum(earlier() is not None for earlier in self._marks)
        self.counts["kept_old_graphs"] += alive > 1
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            self._marks.append(weakref.ref(mark))
        self.counts["backwards"] += 1
        # A scaler's multiplication is the last operation of the graph, and not the script's.
        self._waiting.append(last_operations(loss.grad_fn)[self.is_scaled :])
        self.counts["divided_twice"] += self._waiting[-1][:2] == ["DivBackward0", "DivBackward0"]
        self.counts["searched_for_nan"] += bool(library("torch").is_anomaly_enabled())
        self.counts["past_the_launcher"] += not is_called_by_launcher()

    def on_batch(self) -> None:
        """The loop takes a batch."""
        self.counts["batches"] += 1
        self.counts["batches_past_the_launcher"] += not is_called_by_launcher()

    def on_scaling(self, by: float | None) -> None:
        """A scaler multiplies a loss; by None, if it is disabled and only returns the loss."""
        self.counts["scaled"] += by is not None
        self.scale = 1.0 if by is None else by
        self.is_scaled = self.scale != 1.0

    def on_unscaling(self) -> None:
        """A scaler divides gradients."""
        self.is_scaled = False

    def on_step_start(self, optimizer: Any, *, has_closure: bool) -> None:
        """An optimizer is about to step; one with a closure makes its gradients itself."""
        if not has_closure:
            self.ledger.on_step_start(optimizer)
        self.rates.append(float(optimizer.param_groups[0]["lr"]))
        self.counts["steps_past_the_launcher"] += not is_called_by_launcher()

    def on_step_end(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self.ledger.on_step_end(optimizer)
        self.counts["steps"] += 1
        # Divided or multiplied as its last operation: the usual forms of `loss / steps`. A mean over the batch is
        # inside the loss function and no division here.
        undivided = [operations for operations in self._waiting if not set(operations[:1]) & set(SCALES)]
        self.counts["undivided_losses"] += len(undivided) if len(undivided) > 1 else 0
        self.per_step.append(len(self._waiting))
        self._waiting.clear()

    def on_clipping(self, parameters: list[Any], limit: float | None) -> None:
        """Gradients are about to be clipped; to infinity they are only measured."""
        if limit is not None and math.isinf(limit):
            return
        self.counts["clips"] += 1
        self.counts["clipped_for_nothing"] += not self.ledger.waits(parameters)
        self.counts["clipped_while_scaled"] += self.is_scaled


def last_operations(node: Any) -> list[str]:
    """The names of the last operations of a graph, the last first."""
    names: list[str] = []
    while node is not None and len(names) < 3:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def is_called_by_launcher() -> bool:
    """Whether code of accelerate, Fabric or Lightning called what runs now, nearer than any of the script's own.

    A hook named `backward`, which a module of Lightning may have, is called by the library and counts as its code.
    """
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if is_users(path):
            if frame.f_code.co_name != "backward":
                return False
        elif any(name in path for name in LAUNCHERS):
            return True
        frame = frame.f_back
    return False
