"""What a loop does to gradients: which it clips and steps on, and which graphs outlive their batch."""

from __future__ import annotations

import inspect
import weakref
from collections import Counter
from functools import partial
from typing import Any

from lintrain.probe.child.frames import is_users

LAUNCHERS = ("/accelerate/", "/lightning/", "/lightning_fabric/", "/pytorch_lightning/", "/deepspeed/")


class Mark:
    """Lives as long as the graph that it is hooked into."""

    def __call__(self, *gradients: Any) -> None:
        """Leave the gradients as they are."""


class Effects:
    """Counts of effects, by the names of the fields of `LoopEvidence`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.per_step: list[int] = []  # backward passes that each step used
        self.is_scaled = False
        self._last = ""
        self._marks: list[weakref.ref[Mark]] = []
        self._waiting: list[list[str]] = []  # the last operations of each loss since the last step
        self._used: set[int] = set()  # parameters that were stepped on
        self._watched: set[int] = set()

    def watch(self, optimizer: Any) -> None:
        """See what is added to the gradients of an optimizer's parameters."""
        for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
            if parameter.requires_grad and parameter.is_leaf and id(parameter) not in self._watched:
                self._watched.add(id(parameter))
                parameter.register_hook(partial(self._adds, parameter))

    def _adds(self, parameter: Any, _added: Any) -> None:
        """A gradient is about to be added to one that a step has used already, if there is one still."""
        is_there = parameter.grad is not None and bool(parameter.grad.any())
        self.counts["added_to_old_gradients"] += is_there and id(parameter) in self._used
        if not is_there:  # cleared since the step: what is added up from here on is new
            self._used.discard(id(parameter))

    def goes_backward(self, loss: Any) -> None:
        """Hook a mark into the graph that backward goes through; that of the batch before may be there still."""
        alive = sum(earlier() is not None for earlier in self._marks)
        self.counts["kept_old_graphs"] += alive > 1
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            self._marks.append(weakref.ref(mark))
        self._last = "backward"
        self.counts["backwards"] += 1
        self._waiting.append(last_operations(loss.grad_fn))
        self.counts["divided_twice"] += self._waiting[-1] == ["DivBackward0", "DivBackward0"]
        self.counts["past_the_launcher"] += not is_called_by_launcher()

    def steps(self, optimizer: Any, *, has_closure: bool) -> None:
        """An optimizer is about to step, on the gradients that are there; one with a closure makes them itself."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if not has_closure:
            empty = all(parameter.grad is None or not parameter.grad.any() for parameter in parameters)
            self.counts["stepped_on_nothing"] += empty
        self._last = "step"
        self.counts["steps"] += 1

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        self._used.update(id(parameter) for group in optimizer.param_groups for parameter in group["params"])
        undivided = [operations for operations in self._waiting if operations[:1] != ["DivBackward0"]]
        self.counts["undivided_losses"] += len(undivided) if len(undivided) > 1 else 0
        self.per_step.append(len(self._waiting))
        self._waiting.clear()

    def clips(self) -> None:
        """Gradients are about to be clipped."""
        self.counts["clips"] += 1
        self.counts["clipped_for_nothing"] += self._last != "backward"
        self.counts["clipped_while_scaled"] += self.is_scaled


def last_operations(node: Any) -> list[str]:
    """The names of the last operation of a graph and of the one before it."""
    above = node.next_functions[0][0] if node is not None and node.next_functions else None
    return [each.name() for each in (node, above) if each is not None]


def is_called_by_launcher() -> bool:
    """Whether code of accelerate, Fabric or Lightning called backward, nearer than any of the script's own.

    A hook of that name, which a module of Lightning may have, is called by the library and counts as its code.
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
