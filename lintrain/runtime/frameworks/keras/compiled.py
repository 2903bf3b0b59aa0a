"""The arguments of `compile`, as plain texts and numbers."""

from __future__ import annotations

import re
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.keras.keras_run import KerasRun

Value = str | int | float | bool | None
KERAS = ("keras", "tf_keras")
MOST_STEPS = 10_000


def loss_name(model: Any, package: str = "keras") -> str:
    """The loss as Keras names it; empty for one of the script's own, and for several."""
    given = model.loss
    if isinstance(given, str):
        given = library(f"{package}.losses").get(given)
    if not any(module.startswith(KERAS) for module in (type(given).__module__, _module(given))):
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
    if setting is None:  # the older Keras keeps it for the function that it calls
        setting = getattr(model.loss, "_fn_kwargs", {}).get("from_logits")
    if setting is None and callable(model.loss) and "crossentropy" in loss_name(model):
        return False
    return setting if isinstance(setting, bool) else None


def arguments_of(run: KerasRun) -> dict[str, Value]:
    """What `compile` and `fit` were given."""
    model, given = run.keras, run.given
    return {
        "loss": loss_name(model, run.package) or type(model.loss).__name__,
        "from_logits": from_logits(model),
        "optimizer": type(model.optimizer).__name__,
        "jit_compile": bool(model.jit_compile),
        "run_eagerly": bool(model.run_eagerly),
        "batch_size": given["batch_size"],
        "epochs": given["epochs"],
        "shuffle": given["shuffle"] if isinstance(given["shuffle"], bool) else str(given["shuffle"]),
        "validation_split": float(given["validation_split"] or 0.0),
    }


def _given_rate(optimizer: Any) -> Any:
    """The rate or schedule as the optimizer keeps it; the legacy optimizers of TensorFlow store it elsewhere."""
    given = getattr(optimizer, "_learning_rate", None)
    older: dict[str, Any] = getattr(optimizer, "_hyper", {})
    return older.get("learning_rate") if given is None else given


def rates(run: KerasRun, most: int = MOST_STEPS) -> tuple[float, float, int]:
    """The learning rate of the first step, the highest of the planned ones, and the step that has it."""
    optimizer = run.keras.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    schedule = _given_rate(optimizer)
    if not isinstance(schedule, library(f"{run.package}.optimizers.schedules").LearningRateSchedule):
        rate = float(optimizer.learning_rate)
        return rate, rate, 0
    planned = run.planned_steps
    steps = range(0, planned, max(1, planned // most))
    found = [(float(schedule(step)), step) for step in steps]
    highest = max(rate for rate, _ in found)
    return found[0][0], highest, next(step for rate, step in found if rate == highest)
