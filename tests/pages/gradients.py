"""What a loop does to gradients: which it clips and steps on, and which graphs outlive their batch."""

from __future__ import annotations

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

    def start(self) -> None:
        """Hook into optimizers, clipping and scalers."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(lambda optimizer, given, named: self.steps(optimizer))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            _before(torch.nn.utils, name, self.clips)
        _before(torch.amp.GradScaler, "scale", self.scales)
        _before(torch.amp.GradScaler, "unscale_", self.unscales)

    def goes_backward(self, loss: Any) -> None:
        """Hook a mark into the graph that backward goes through; that of the batch before may be there still."""
        alive = sum(earlier() is not None for earlier in self.marks)
        self.counts["kept old graphs"] += alive > 1
        mark = Mark()
        if loss.grad_fn is not None:
            loss.grad_fn.register_hook(mark)
            self.marks.append(weakref.ref(mark))
        self.last = "backward"

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        empty = all(parameter.grad is None or not parameter.grad.any() for parameter in parameters)
        self.counts["stepped on no gradients"] += empty
        self.last = "step"

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


def _before(owner: Any, name: str, note: Any) -> None:
    """Let `note` see each call of a function."""
    plain = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        note(*args)
        return plain(*args, **kwargs)

    setattr(owner, name, watched)
