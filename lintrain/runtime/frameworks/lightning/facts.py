"""What is known of a run from its Trainer and module: settings, schedules, and the names that callbacks monitor.

Names that callbacks monitor: is one missing because nothing logs it, or because the probe ran only a few
batches?
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import attribute, loaded

Scalar = str | int | float | bool | None
RECORDED = (
    "accelerator",
    "accumulate_grad_batches",
    "benchmark",
    "check_val_every_n_epoch",
    "deterministic",
    "devices",
    "fast_dev_run",
    "gradient_clip_algorithm",
    "gradient_clip_val",
    "inference_mode",
    "limit_test_batches",
    "limit_train_batches",
    "limit_val_batches",
    "log_every_n_steps",
    "max_epochs",
    "max_steps",
    "min_epochs",
    "min_steps",
    "num_nodes",
    "num_sanity_val_steps",
    "overfit_batches",
    "precision",
    "reload_dataloaders_every_n_epochs",
    "strategy",
    "val_check_interval",
)
LENGTHS = ("total_steps", "T_max", "total_iters", "num_training_steps")
"""Attributes in which schedules store their number of steps."""


def given_arguments(trainer: Any) -> dict[str, Scalar]:
    """The arguments of the Trainer, with defaults for those that were not given."""
    # What the script wrote, not the attributes of the Trainer: the probe changed those to one process on the CPU.
    asked: dict[str, Any] = trainer.__dict__.get("lintrain_asked", {})
    defaults = inspect.signature(type(trainer).__init__).parameters
    values = {name: asked.get(name, defaults[name].default) for name in RECORDED if name in defaults}
    return {name: _scalar(value) for name, value in values.items() if value is not inspect.Parameter.empty}


def root_device(trainer: Any) -> str:
    """The device that the Trainer moves its module to, which is still on the CPU when the run begins."""
    return str(attribute(attribute(trainer, "strategy", None), "root_device", "cpu"))


def planned(trainer: Any) -> dict[str, Scalar]:
    """The run as planned, before it is shortened: its batches, steps and epochs, and its kind of optimization."""
    return {
        "automatic_optimization": bool(trainer.lightning_module.automatic_optimization),
        "optimizers": len(trainer.optimizers),
        "planned_batches": _finite(trainer.num_training_batches),
        "planned_epochs": planned_epochs(trainer),
        "planned_steps": planned_steps(trainer),
        "monitors": ", ".join(sorted(monitors_of(trainer))),
        **_schedule(trainer),
    }


def planned_epochs(trainer: Any) -> int | None:
    """The epochs of the whole run; None if its epochs have no limit."""
    epochs = trainer.max_epochs
    return epochs if isinstance(epochs, int) and epochs > 0 else None


def planned_steps(trainer: Any) -> int | None:
    """The optimizer steps of the whole run; None if they are not known."""
    try:
        return _finite(trainer.estimated_stepping_batches)
    except Exception:  # noqa: BLE001 - Lightning refuses to estimate it for some valid runs
        return None


def _schedule(trainer: Any) -> dict[str, Scalar]:
    """The first schedule: its class, how long it is, and how it is stepped."""
    configured: Any = next(iter(trainer.lr_scheduler_configs), None)
    if configured is None:
        return {}
    return {
        "schedule": type(configured.scheduler).__name__,
        "schedule_interval": configured.interval,
        "schedule_frequency": configured.frequency,
        "schedule_monitor": configured.monitor,
        "schedule_length": length_of(configured.scheduler),
    }


def length_of(schedule: Any) -> int | None:
    """The steps after which a schedule ends, if it knows; None if it has no end."""
    lambdas: list[Any] = attribute(schedule, "lr_lambdas", None) or []
    # The schedules of transformers are a LambdaLR on a `partial`, whose keywords hold the planned steps; the schedule
    # has no such attribute.
    partials: list[functools.partial[Any]] = [each for each in lambdas if isinstance(each, functools.partial)]
    keywords: dict[str, Any] = partials[0].keywords if partials else {}
    for name in LENGTHS:
        value = keywords.get(name, attribute(schedule, name, None))
        # True is an int for Python, and no length.
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
    return None


def monitors_of(trainer: Any) -> set[str]:
    """The names that callbacks and schedules monitor."""
    watching = [*trainer.callbacks, *(each for each in trainer.lr_scheduler_configs if _is_plateau(each))]
    # Only ReduceLROnPlateau reads its monitor. Other schedules may be configured with one, and never look at it.
    return {name for each in watching if isinstance(name := attribute(each, "monitor", None), str)}


def _is_plateau(configured: Any) -> bool:
    return bool(configured.reduce_on_plateau)


def logged_names(trainer: Any) -> list[str]:
    """What was logged until now, by name."""
    return sorted(map(str, trainer.callback_metrics))


def _finite(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None


def _scalar(value: Any) -> Scalar:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    torch = loaded("torch")
    return str(value) if torch is None or not isinstance(value, torch.Tensor) else None


SETS_UP = re.compile(r"__init__$|configure_|test_|on_test_|predict_|on_predict_")
"""Methods that log nothing during training: those that configure what is monitored, and those of other calls."""


def missing_by_shortening(trainer: Any, error: BaseException, *, has_validated: bool) -> str | None:
    """The monitored name whose absence raised an error, if code that ran might log it later; None if nothing logs
    it.
    """
    logged = logged_names(trainer)
    for name in monitors_of(trainer):
        # The error has to name it: a run may end with any error while some monitored name happens to be missing.
        if name not in logged and name in str(error) and _is_logged_somewhere(trainer, name, has_validated):
            return name
    return None


def _is_logged_somewhere(trainer: Any, name: str, has_validated: bool) -> bool:
    owners = (trainer.lightning_module, *trainer.callbacks)
    for function in (each for owner in owners for each in _functions(owner)):
        # Without a validation loader these methods never run in a full training either, so they prove nothing.
        if "validation" in function.__name__ and not has_validated:
            continue
        if not SETS_UP.match(function.__name__) and name in texts_of(function.__code__):
            return True
    return False


def _functions(owner: Any) -> Iterator[FunctionType]:
    """The methods that the script's own classes give an object."""
    for base in type(owner).__mro__:
        for value in vars(base).values():
            # The outer function of a decorator such as `rank_zero_only` is the library's; the user's is under it.
            function = inspect.unwrap(value) if callable(value) else None
            if isinstance(function, FunctionType) and is_users(function.__code__.co_filename):
                yield function


def texts_of(code: CodeType) -> Iterator[str]:
    """The texts that the code of a function holds, with those of the functions inside of it."""
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):  # the keys of a dictionary
            yield from (each for each in constant if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(constant, CodeType):
            yield from texts_of(constant)
