"""What a script does to its model while it runs, seen through torch's own hooks: one list of facts for each channel.

Two scripts that train in the same way leave the same trace, so a mistake that was injected is real where the traces
differ. Numbers are rounded, so that the order of additions does not count.
"""

from __future__ import annotations

import gc
import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST = 4_000
"""Facts that are kept of each channel."""


class Trace:
    """The channels, filled while the script runs."""

    def __init__(self) -> None:
        self.channels: dict[str, list[Any]] = {}
        self.depth = 0
        self.optimizers: list[Any] = []

    def note(self, channel: str, fact: Any) -> None:
        """Write one fact down."""
        facts = self.channels.setdefault(channel, [])
        if len(facts) < MOST:
            facts.append(fact)

    def start(self) -> None:
        """Hook into torch and transformers."""
        import torch

        self._watch_calls(torch.nn.Module)
        self._wrap(torch.Tensor, "backward", self._before_backward)
        self._wrap(torch.optim.Optimizer, "__init__", after=lambda _, optimizer, *__, **___: self._made(optimizer))
        self._wrap(torch.nn.utils, "clip_grad_norm_", after=lambda norm, *_, **__: self.note("clipping", rounded(norm)))
        self._wrap(torch, "save", lambda *given, **_: self.note("saved", str(given[1])))
        self._wrap_saving()
        warnings.showwarning = lambda message, *_, **__: self.note("warnings", str(message)[:200])

    def finish(self, path: Path, error: str | None) -> None:
        """Write the trace as JSON, with the error that ended the script."""
        self.note("error", error)
        for optimizer in self.optimizers:
            for parameter in parameters_of(optimizer):
                self.note("weights", rounded(parameter.detach().float().abs().sum()))
        path.write_text(json.dumps(self.channels))

    def _wrap(
        self, owner: Any, name: str, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
    ) -> None:
        inner = getattr(owner, name)

        def wrapper(*given: Any, **named: Any) -> Any:
            if before:
                before(*given, **named)
            result = inner(*given, **named)
            if after:
                after(result, *given, **named)
            return result

        setattr(owner, name, wrapper)

    def _wrap_saving(self) -> None:
        import transformers

        for owner in (transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase):
            self._wrap(owner, "save_pretrained", lambda *given, **_: self.note("saved", str(given[1])))

    def _watch_calls(self, base: Any) -> None:
        inner = base.__call__

        def called(module: Any, *given: Any, **named: Any) -> Any:
            if self.depth == 0:
                self._entered(module, given, named)
            self.depth += 1
            try:
                output = inner(module, *given, **named)
            finally:
                self.depth -= 1
            if self.depth == 0:
                self.note("outputs", fingerprint(output))
                self.note("memory", retained())
            return output

        base.__call__ = called

    def _entered(self, module: Any, given: Any, named: Any) -> None:
        """A whole model is called."""
        import torch

        self.note("inputs", [[fingerprint(one) for one in given], fingerprint(named)])
        self.note("modes", [module.training, torch.is_grad_enabled(), inner_modes(module)])

    def _before_backward(self, loss: Any, *_: Any, **__: Any) -> None:
        self.note("losses", [list(loss.shape), rounded(loss.sum())])

    def _made(self, optimizer: Any) -> None:
        """An optimizer was built: its steps are watched, closures and all."""
        if any(optimizer is known for known in self.optimizers):
            return
        self.optimizers.append(optimizer)
        number = len(self.optimizers)
        optimizer.register_step_pre_hook(lambda *_: self._before_step(number, optimizer))

    def _before_step(self, number: int, optimizer: Any) -> None:
        norms = [float(p.grad.norm()) for p in parameters_of(optimizer) if p.grad is not None]
        self.note("steps", number)
        self.note("gradients", [number, len(norms), rounded(sum(norms))])
        self.note("rates", [number, [float(f"{group['lr']:.4g}") for group in optimizer.param_groups]])


def parameters_of(optimizer: Any) -> list[Any]:
    """Every parameter that an optimizer holds."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def rounded(number: Any) -> float | str:
    """A number with four digits; `nan` and `inf` as text, which JSON can hold."""
    value = float(number)
    return float(f"{value:.4g}") if value == value and abs(value) != float("inf") else str(value)


def fingerprint(value: Any) -> Any:
    """What tells two inputs or outputs apart: shapes, types and sums of their tensors."""
    import torch

    match value:
        case torch.Tensor():
            total = value.detach().double().sum() if value.numel() and not value.is_sparse else 0
            weighted = hashlib.sha256(str(value.detach().flatten()[:512].tolist()).encode()).hexdigest()[:8]
            exact = weighted if not value.is_floating_point() else ""
            return [list(value.shape), str(value.dtype), rounded(total), exact]
        case dict():
            return {str(name): fingerprint(one) for name, one in value.items()}
        case list() | tuple():
            return [fingerprint(one) for one in value[:8]]
        case _:
            return fingerprint(dict(value)) if hasattr(value, "keys") else str(type(value).__name__)


def inner_modes(module: Any) -> int:
    """How many of the modules inside are in train mode."""
    return sum(bool(inner.training) for inner in module.modules())


def retained() -> int:
    """How many tensors that belong to a graph are alive."""
    import torch

    return sum(isinstance(one, torch.Tensor) and one.grad_fn is not None for one in gc.get_objects())
