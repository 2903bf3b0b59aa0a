"""A run of Lightning shortened after its set-up, which plans its full length."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.lightning.quiet import package_of

BATCHES = 4
MOST_ACCUMULATED = 4
EVALUATION_BATCHES = 2
FINDERS = ("LearningRateFinder", "BatchSizeFinder")


def without_finders(session: ProbeSession, trainer: Any) -> None:
    """Remove callbacks that train many times to find a setting."""
    for callback in [each for each in trainer.callbacks if type(each).__name__ in FINDERS]:
        session.shorten(f"`{type(callback).__name__}` was left out")
        trainer.callbacks.remove(callback)


def shorten_training(session: ProbeSession, trainer: Any) -> None:
    """A few steps of one epoch, and then validation, however rarely it was requested."""
    fit_loop = trainer.fit_loop
    if trainer.accumulate_grad_batches > MOST_ACCUMULATED:
        said = (
            f"gradients were accumulated over {MOST_ACCUMULATED} batches instead of {trainer.accumulate_grad_batches}"
        )
        session.shorten(said)
        trainer.accumulate_grad_batches = MOST_ACCUMULATED
    wanted = BATCHES * trainer.accumulate_grad_batches
    if fit_loop.max_batches > wanted:
        session.shorten(f"training ended after {wanted} batches{_of(fit_loop.max_batches)}")
        fit_loop.max_batches = wanted
    fit_loop.min_epochs, fit_loop.epoch_loop.min_steps = 0, None
    validate_at_the_end(trainer)


def validate_at_the_end(trainer: Any) -> None:
    """Validate at the end of a shortened epoch, if the whole run validates at all."""
    comes_to_validation = _comes_to_validation(trainer)
    trainer.fit_loop.epoch_loop._should_check_val_fx = functools.partial(_validates, trainer, comes_to_validation)


def _comes_to_validation(trainer: Any) -> bool:
    """Whether the whole run would validate at all: `max_steps` may end it before."""
    interval = trainer.val_check_batch
    if trainer.max_steps <= 0 or not isinstance(interval, int):
        return True
    return bool(trainer.max_steps * trainer.accumulate_grad_batches >= interval)


def _validates(trainer: Any, comes_to_validation: bool, _fetcher: Any) -> bool:
    is_last = trainer.fit_loop.epoch_loop._is_training_done
    return bool(comes_to_validation and trainer.enable_validation and (is_last or trainer.should_stop))


def _of(count: float) -> str:
    return f" of {count:.0f}" if math.isfinite(count) else ""


def shorten_evaluation(session: ProbeSession, loop: Any) -> None:
    """Two batches of each loader; the limits that the script set are checked before."""
    prepare: Callable[[], None] = loop.setup_data

    def setup_data() -> None:
        prepare()
        if any(batches > EVALUATION_BATCHES for batches in loop._max_batches):
            session.shorten(f"evaluation ended after {EVALUATION_BATCHES} batches of each loader")
        loop._max_batches = [min(EVALUATION_BATCHES, batches) for batches in loop._max_batches]

    loop.setup_data = setup_data


def quiet_restart(trainer: Any, stage: Any) -> None:
    """Restore a Trainer to its state before a sanity check that failed, and disable validation."""
    trainer.state.stage = stage
    trainer.limit_val_batches = 0
    trainer._logger_connector.reset_results()
    trainer._logger_connector.reset_metrics()
    trainer.lightning_module._current_fx_name = None
    reset = getattr(library(f"{package_of(trainer)}.loops.utilities"), "_reset_progress", None)
    if reset is not None:
        reset(trainer.fit_loop.epoch_loop.val_loop)
