"""What a loop does to gradients: which it clips and steps on, and which graphs outlive their batch."""

from __future__ import annotations

import sys
import weakref
from typing import Any


class Mark:
    """Lives as long as the graph that it is hooked into."""

    def __call__(self, *gradients: Any) -> None:
        """Leave the gradients as they are."""


class GradientWatch:
    """Counts of effects on gradients, by the names that `effects.EFFECT_OF` has for them."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self.marks: list[weakref.ref[Mark]] = []
        self.last = ""
        self.is_scaled = False
        self.waiting: list[list[str]] = []  # the last operations of each loss since the last step
        self.used: set[int] = set()  # parameters that were stepped on
        self.backwards = self.stepped = 0

    def start(self) -> None:
        """Hook into optimizers, clipping and scalers."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(lambda optimizer, given, named: self.steps(optimizer))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            _before(torch.nn.utils, name, self.clips)
        _before(torch.amp.GradScaler, "scale", self.scales)
        _before(torch.amp.GradScaler, "unscale_", self.unscales)

    def watch(self, parameters: list[Any]) -> None:
        """See what is added to the gradients of an optimizer's parameters."""
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.register_hook(lambda added, parameter=parameter: self.adds(parameter))

    def adds(self, parameter: Any) -> None:
        """A gradient is about to be added to one that a step has used already, if there is one still."""
        is_old = id(parameter) in self.used and parameter.grad is not None and bool(parameter.grad.any())
        self.counts["added to old gradients"] += is_old

    def goes_backward(self, loss: Any) -> None:
        """Hook a mark into the graph that backward goes through; that of the batch before may be there still."""
        alive = sum(earlier() is not None for earlier in self.marks)
        self.counts["kept old graphs"] += alive > 1
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            self.marks.append(weakref.ref(mark))
        self.last = "backward"
        self.backwards += 1
        self.waiting.append(_last_operations(loss.grad_fn))
        self.counts["divided the loss twice"] += self.waiting[-1] == ["DivBackward0", "DivBackward0"]
        self.counts["went past the launcher"] += not _is_called_by_launcher()

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        empty = all(parameter.grad is None or not parameter.grad.any() for parameter in parameters)
        self.counts["stepped on no gradients"] += empty
        self.used.update(id(parameter) for parameter in parameters)
        self.last = "step"
        self.stepped += 1
        undivided = [operations for operations in self.waiting if operations[:1] != ["DivBackward0"]]
        self.counts["added up undivided losses"] += len(undivided) > 1
        self.waiting.clear()

    def clips(self, *given: Any) -> None:
        """Gradients are about to be clipped."""
        self.counts["clipped what no step used"] += self.last != "backward"
        self.counts["clipped scaled gradients"] += self.is_scaled

    def scales(self, scaler: Any, *given: Any) -> None:
        """A scaler multiplies a loss."""
        self.is_scaled = bool(scaler.is_enabled())

    def unscales(self, *given: Any) -> None:
        """A scaler divides gradients."""
        self.is_scaled = False

    def finish(self) -> None:
        """Count whether each of several backward passes was followed by a step."""
        self.counts["stepped on every batch"] += 1 < self.backwards <= self.stepped


def _last_operations(node: Any) -> list[str]:
    """The names of the last operation of a graph and of the one before it."""
    above = node.next_functions[0][0] if node is not None and node.next_functions else None
    return [each.name() for each in (node, above) if each is not None]


def _is_called_by_launcher() -> bool:
    """Whether code of accelerate or of Fabric called backward."""
    frame: Any = sys._getframe()
    while frame is not None:
        if any(name in frame.f_code.co_filename for name in ("/accelerate/", "/fabric/")):
            return True
        frame = frame.f_back
    return False


def _before(owner: Any, name: str, note: Any) -> None:
    """Let `note` see each call of a function."""
    plain = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        note(*args)
        return plain(*args, **kwargs)

    setattr(owner, name, watched)
