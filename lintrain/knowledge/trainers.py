"""Which classes of transformers and TRL are trainers or training arguments, and what their optimizers do by default.

The tables of signatures decide, so that a trainer of a new version needs no edit here: a trainer is a class whose name
says so and that accepts `train_dataset`; training arguments are `TrainingArguments` and the classes whose signature
extends it.
"""

from __future__ import annotations

from functools import cache

from lintrain.knowledge import api
from lintrain.knowledge.tables import callable_names, history_of
from lintrain.knowledge.target import Targets

TRAINER = "transformers.Trainer"
TRAINING_ARGUMENTS = "transformers.TrainingArguments"
PACKAGES = ("transformers", "trl")


@cache
def trainer_parameters(path: str) -> tuple[str, ...] | None:
    """The parameters of a trainer in order, as of the newest version that lists them; None for other paths."""
    if not path.endswith("Trainer"):
        return None
    # The last versions of a deprecated class often accept `*args, **kwargs` and only warn.
    newest_first = (_names(signature) for signature in reversed(_signatures(path)))
    return next((names for names in newest_first if "train_dataset" in names), None)


@cache
def is_training_arguments(path: str) -> bool:
    """Whether a path is `TrainingArguments` or a class that extends it, such as `trl.SFTConfig`."""
    if path == TRAINING_ARGUMENTS:
        return True
    if not path.endswith(("Config", "TrainingArguments")):
        return False
    if path.rpartition(".")[2].startswith("TF"):
        return False  # they belong to Keras, where `Model.fit` trains
    bases = {part[1:] for signature in _signatures(path) for part in signature if part.startswith("<")}
    # Seq2SeqTrainingArguments is in the tables with all of its parameters.
    return any(is_training_arguments(base) for base in bases) or any(
        {"output_dir", "per_device_train_batch_size"} <= {*_names(each)} for each in reversed(_signatures(path))
    )


def _signatures(path: str) -> list[tuple[str, ...]]:
    package = path.partition(".")[0]
    if package not in PACKAGES or path not in callable_names(package):
        return []
    return [signature for signature in history_of(package, path) if signature is not None]


def _names(signature: tuple[str, ...]) -> tuple[str, ...]:
    names = (part.partition("=")[0] for part in signature)
    return tuple(name for name in names if name.isidentifier())


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

TORCH_OPTIMIZERS = frozenset(_TORCH_RATES)
"""The names of the optimizers of `torch.optim`."""


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
