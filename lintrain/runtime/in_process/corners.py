"""The first entries of every weight: enough to see whether steps move it, at a small part of the memory."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.measure.weights import FLOAT32_ROUNDING, SMALLEST_PULL

ENTRIES = 4_096


class Corners:
    """Copies of the first entries of weights; `felt` names those whose gradients there should have moved them."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights
        # This is the user's real training: copying all weights could end it for lack of memory.
        self.before = {name: _corner(weight.detach()).clone() for name, weight in weights.items()}
        self.felt: set[str] = set()
        self.steps = 0

    def feel(self, optimizers: tuple[Any, ...]) -> None:
        """Note which weights have gradients, before a step that uses them."""
        rates = _smallest_felt(optimizers)
        self.felt |= {name for name, weight in self.weights.items() if _pulls(weight, rates)}

    def moved(self) -> set[str]:
        """The weights whose first entries have changed."""
        return {name for name, weight in self.weights.items() if not _corner(weight.detach()).equal(self.before[name])}


def _corner(tensor: Any) -> Any:
    return tensor.reshape(-1)[:ENTRIES]


def _smallest_felt(optimizers: tuple[Any, ...]) -> float | None:
    """The rate of plain SGD, whose steps are as small as its gradients; None if the size of a step does not depend
    on its gradient.
    """
    if not any(type(optimizer).__name__ == "SGD" for optimizer in optimizers):
        return None
    return max(float(group["lr"]) for optimizer in optimizers for group in optimizer.param_groups)


def _pulls(weight: Any, rate: float | None) -> bool:
    """Whether a gradient is more than rounding noise beside its weight, and a step of SGD more than float32 drops."""
    if weight.grad is None:
        return False
    gradient, value = _corner(weight.grad.detach()).float(), _corner(weight.detach()).float()
    is_noise = bool(gradient.norm() <= SMALLEST_PULL * value.norm().clamp(min=1e-6))
    if is_noise or rate is None:
        return not is_noise
    return bool((rate * gradient.abs() > FLOAT32_ROUNDING * value.abs()).any())
