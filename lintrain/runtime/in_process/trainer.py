"""A Trainer of transformers, measured in this process, with the stages of a probe."""

from __future__ import annotations

from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import loaded
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.stages import measure
from lintrain.runtime.in_process.restoring import as_before
from lintrain.runtime.in_process.session import InProcessSession


def is_trainer(value: object) -> bool:
    """Whether an object is a Trainer of transformers, or of a library that is built on it."""
    module = loaded("transformers.trainer")
    return module is not None and isinstance(value, module.Trainer)


def measure_trainer(session: InProcessSession, trainer: Any, call: Location | None) -> None:
    """Every stage that `train()` would reach; the trainer is restored afterwards."""
    if trainer.args.device.type != "cpu":
        session.device = "gpu"
    with as_before(trainer), replaced(trainer.args, push_to_hub=False):
        measure(session, trainer, "train", call, (), {})
