"""What `compile` was given, in plain words and numbers."""

from __future__ import annotations

import re
from typing import Any

from lintrain.probe.child.keras.run import KerasRun
from lintrain.probe.child.library import library

Value = str | int | float | bool | None
MOST_STEPS = 10_000


def loss_name(model: Any) -> str:
    """The loss as Keras names it; empty for one of the script's own, and for several."""
    given = model.loss
    if isinstance(given, str):
        given = library("keras.losses").get(given)
    if not type(given).__module__.startswith("keras") and not _module(given).startswith("keras"):
        return ""
    name = getattr(given, "__name__", None) or type(given).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _module(function: Any) -> str:
    return str(getattr(function, "__module__", ""))


def from_logits(model: Any) -> bool | None:
    """Whether the loss takes logits; a name or a function stands for the default, None for no such setting."""
    if isinstance(model.loss, str):
        return False if "crossentropy" in model.loss.lower() else None
    setting = getattr(model.loss, "from_logits", None)
    if setting is None and callable(model.loss) and "crossentropy" in loss_name(model):
        return False
    return setting if isinstance(setting, bool) else None


def arguments_of(run: KerasRun) -> dict[str, Value]:
    """What `compile` and `fit` were given."""
    model, given = run.keras, run.given
    return {
        "loss": loss_name(model) or type(model.loss).__name__,
        "from_logits": from_logits(model),
        "optimizer": type(model.optimizer).__name__,
        "jit_compile": bool(model.jit_compile),
        "run_eagerly": bool(model.run_eagerly),
        "batch_size": given["batch_size"],
        "epochs": given["epochs"],
        "shuffle": given["shuffle"] if isinstance(given["shuffle"], bool) else str(given["shuffle"]),
        "validation_split": float(given["validation_split"] or 0.0),
    }


def rates(run: KerasRun) -> tuple[float, float, int]:
    """The learning rate of the first step, the highest of the planned ones, and the step that has it."""
    optimizer = run.keras.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    schedule: Any = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, library("keras.optimizers.schedules").LearningRateSchedule):
        rate = float(optimizer.learning_rate)
        return rate, rate, 0
    planned = max(1, int(run.iterator.num_batches or 100) * int(run.given["epochs"]))
    steps = range(0, planned, max(1, planned // MOST_STEPS))
    found = [(float(schedule(step)), step) for step in steps]
    highest = max(rate for rate, _ in found)
    return found[0][0], highest, next(step for rate, step in found if rate == highest)
