"""A Trainer of Lightning without side effects: one process on the CPU, no tracker, files in a temporary folder.

A run of Lightning shortened after its set-up, which plans its full length.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.runtime.child.library import attribute, is_row, library
from lintrain.runtime.child.probe_session import ProbeSession

ONE_PROCESS: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "auto"}
SEVERAL_PROCESSES: dict[str, Any] = {"accelerator": "cpu", "devices": 2, "num_nodes": 1, "strategy": "ddp"}
WRITES_FILES = ("CSVLogger", "TensorBoardLogger")
BY_ITSELF: dict[str, tuple[Any, ...]] = {
    "accelerator": ("auto", "cpu"),
    "devices": ("auto", 1, "1"),
    "num_nodes": (1,),
    "strategy": ("auto",),
}


def package_of(trainer: Any) -> str:
    """`lightning.pytorch` or `pytorch_lightning`, whichever a Trainer comes from."""
    # Through the bases: a script may derive a Trainer of its own, whose module is the script.
    modules = (base.__module__ for base in type(trainer).__mro__ if base.__name__ == "Trainer")
    return next((name for name in map(_package, modules) if name), "lightning.pytorch")


def _package(module: str) -> str:
    return next((name for name in ("lightning.pytorch", "pytorch_lightning") if module.startswith(name)), "")


def quiet_arguments(session: ProbeSession, trainer: Any, arguments: dict[str, Any]) -> None:
    """Change the arguments of a Trainer before it is created; the caller keeps the original ones."""
    without_distribution(session, arguments)
    arguments["default_root_dir"] = session.folder("output")
    # A profiler writes files and slows down each call; no measurement needs it.
    if arguments.get("profiler") is not None:
        arguments["profiler"] = None
    # With `barebones=True` Lightning raises for a logger that is given, also for one that discards all.
    if not arguments.get("barebones"):
        arguments["logger"] = _quiet_loggers(session, package_of(trainer), arguments.get("logger"))
    callbacks = arguments.get("callbacks")
    shown: list[Any] = [*callbacks] if isinstance(callbacks, Sequence) else [callbacks]  # Hydra has its own lists
    if not any("Progress" in type(each).__name__ for each in shown):  # Lightning refuses both at once
        arguments["enable_progress_bar"] = False
    arguments["enable_model_summary"] = False


def without_distribution(session: ProbeSession, arguments: dict[str, Any]) -> None:
    """One process, on the CPU unless another device was requested."""
    for name, value in (SEVERAL_PROCESSES if session.processes > 1 else ONE_PROCESS).items():
        # The pass on the GPU keeps what the script asks for; the number of devices is reduced to one all the same.
        if name == "accelerator" and session.device != "cpu":
            continue
        # A setting that gives one CPU process on this machine anyway is not worth a line in the report.
        if name in arguments and arguments[name] not in (None, *BY_ITSELF[name]):
            asked = arguments[name]
            shown = repr(asked) if isinstance(asked, str | int) else type(asked).__name__
            session.shorten(f"`{name}={shown}` was run as `{value!r}`")
        arguments[name] = value


def _quiet_loggers(session: ProbeSession, package: str, logger: Any) -> Any:
    """Loggers that write files already use a temporary folder; those that send data are replaced."""
    # True and None choose a logger that writes files, which is redirected where it is created.
    if logger is None or isinstance(logger, bool):
        return logger
    given: list[Any] = [*logger] if is_row(logger) else [logger]
    dummy = library(f"{package}.loggers.logger").DummyLogger
    quiet: list[Any] = [each if type(each).__name__ in WRITES_FILES else dummy() for each in given]
    if any(new is not old for new, old in zip(quiet, given, strict=True)):
        session.note("its logger was replaced, and logged values are discarded")
    return quiet if is_row(logger) else quiet[0]


def redirected_loggers(session: ProbeSession, module: Any) -> None:
    """Let the loggers of a module write to a temporary folder."""
    for name in WRITES_FILES:
        logger = attribute(module, name, None)
        if logger is not None and logger.__module__ == module.__name__:
            _redirect(session, logger)


def _redirect(session: ProbeSession, logger: Any) -> None:
    build = logger.__init__

    @functools.wraps(build)
    def init(self: Any, save_dir: Any = None, *args: Any, **kwargs: Any) -> None:
        build(self, session.folder("logs"), *args, **kwargs)

    logger.__init__ = init


def redirect_checkpoints(session: ProbeSession, trainer: Any) -> None:
    """Callbacks save to a temporary folder, and a checkpoint is an empty file."""
    for number, callback in enumerate(trainer.checkpoint_callbacks):
        if attribute(callback, "dirpath", None) is not None:
            callback.dirpath = session.folder(f"checkpoints-{number}")
    # An empty file and no file: callbacks look for the checkpoint that they saved, and remove the one before it.
    trainer.strategy.save_checkpoint = functools.partial(_make_file, session.temporary)


def _make_file(temporary: str, _checkpoint: Any, path: Any, *_args: Any, **_kwargs: Any) -> None:
    asked = os.path.abspath(str(path))
    if asked.startswith(temporary):  # what the script saves elsewhere by itself stays unwritten
        os.makedirs(os.path.dirname(asked), exist_ok=True)
        with open(asked, "wb"):
            pass


def redirect_saving(session: ProbeSession, fabric: Any) -> None:
    """What Fabric saves goes to a temporary folder, and is loaded from there."""
    save, load = fabric.save, fabric.load
    saved: dict[str, str] = {}

    @functools.wraps(save)
    def save_aside(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        # Each path gets a number, so that two paths with one file name do not meet in the folder.
        aside = os.path.join(session.folder("fabric"), str(len(saved)))
        return save(self, saved.setdefault(os.path.abspath(str(path)), aside), *args, **kwargs)

    @functools.wraps(load)
    def load_aside(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return load(self, saved.get(os.path.abspath(str(path)), path), *args, **kwargs)

    fabric.save, fabric.load = save_aside, load_aside


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
        note = (
            f"gradients were accumulated over {MOST_ACCUMULATED} batches instead of {trainer.accumulate_grad_batches}"
        )
        session.shorten(note)
        trainer.accumulate_grad_batches = MOST_ACCUMULATED
    wanted = BATCHES * trainer.accumulate_grad_batches
    if fit_loop.max_batches > wanted:
        session.shorten(f"training ended after {wanted} batches{_of(fit_loop.max_batches)}")
        fit_loop.max_batches = wanted
    # With a minimum, Lightning ignores `should_stop` until that is reached, and a shortened run would go on.
    fit_loop.min_epochs, fit_loop.epoch_loop.min_steps = 0, None
    validate_at_the_end(trainer)


def validate_at_the_end(trainer: Any) -> None:
    """Validate at the end of a shortened epoch, if the whole run validates at all."""
    comes_to_validation = _comes_to_validation(trainer)
    # By the library's own rule, `check_val_every_n_epoch=5` or an interval of 1,000 batches would skip
    # the only epoch that runs.
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
    # After the library's own set-up, which raises for limits that do not fit the loader: that error is the script's.
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
    reset = attribute(library(f"{package_of(trainer)}.loops.utilities"), "_reset_progress", None)
    if reset is not None:
        reset(trainer.fit_loop.epoch_loop.val_loop)
