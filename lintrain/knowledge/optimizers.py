"""The default learning rate and weight decay of optimizers."""

from __future__ import annotations

from lintrain.knowledge import api
from lintrain.knowledge.target import Targets

# Of torch 2.2 and later, with the same values in every version since, so there is no table by version. A test compares
# them.
_TORCH_RATES = {
    "ASGD": 1e-2,
    "Adadelta": 1.0,
    "Adafactor": 1e-2,
    "Adagrad": 1e-2,
    "Adam": 1e-3,
    "AdamW": 1e-3,
    "Adamax": 2e-3,
    "LBFGS": 1.0,
    "NAdam": 2e-3,
    "RAdam": 1e-3,
    "RMSprop": 1e-2,
    "Rprop": 1e-2,
    "SGD": 1e-3,
    "SparseAdam": 1e-3,
}


def default_learning_rate(optimizer: str, targets: Targets) -> float | None:
    """The learning rate of `torch.optim.AdamW()`, `keras.optimizers.Adam()` and the like; None if unknown."""
    module, _, name = optimizer.rpartition(".")
    if module == "torch.optim":
        return _TORCH_RATES.get(name)
    parameter = "learning_rate" if module.startswith("keras") else "lr"
    rate = api.default_value(optimizer, parameter, targets)
    return float(rate) if isinstance(rate, int | float) and not isinstance(rate, bool) else None


def default_weight_decay(optimizer: str, targets: Targets) -> float | None:
    """The weight decay of an optimizer that is created without one; None if unknown."""
    if optimizer.startswith("torch.optim."):
        name = optimizer.rpartition(".")[2]
        return (1e-2 if name == "AdamW" else 0.0) if name in _TORCH_RATES and name != "SparseAdam" else None
    decay = api.default_value(optimizer, "weight_decay", targets)
    return float(decay) if isinstance(decay, int | float) and not isinstance(decay, bool) else None
