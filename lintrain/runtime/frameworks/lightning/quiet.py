"""A Trainer of Lightning without side effects: one process on the CPU, no tracker, files in a temporary folder."""

from __future__ import annotations

import functools
import os
from typing import Any

from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.child.library import library
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
    modules = (base.__module__ for base in type(trainer).__mro__ if base.__name__ == "Trainer")
    return next((name for name in map(_package, modules) if name), "lightning.pytorch")


def _package(module: str) -> str:
    return next((name for name in ("lightning.pytorch", "pytorch_lightning") if module.startswith(name)), "")


def quiet_arguments(session: ProbeSession, trainer: Any, arguments: dict[str, Any]) -> None:
    """Change the arguments of a Trainer before it is created; the caller keeps the original ones."""
    without_distribution(session, arguments)
    arguments["default_root_dir"] = session.folder("output")
    if arguments.get("profiler") is not None:
        arguments["profiler"] = None
    if not arguments.get("barebones"):
        arguments["logger"] = _quiet_loggers(session, package_of(trainer), arguments.get("logger"))
    callbacks = arguments.get("callbacks")
    shown: list[Any] = [*callbacks] if is_row(callbacks) else [callbacks]
    if not any("Progress" in type(each).__name__ for each in shown):  # Lightning refuses both at once
        arguments["enable_progress_bar"] = False
    arguments["enable_model_summary"] = False


def without_distribution(session: ProbeSession, arguments: dict[str, Any]) -> None:
    """One process, on the CPU unless another device was requested."""
    for name, value in (SEVERAL_PROCESSES if session.processes > 1 else ONE_PROCESS).items():
        if name == "accelerator" and session.device != "cpu":
            continue
        if name in arguments and arguments[name] not in (None, *BY_ITSELF[name]):
            asked = arguments[name]
            shown = repr(asked) if isinstance(asked, str | int) else type(asked).__name__
            session.shorten(f"`{name}={shown}` was run as `{value!r}`")
        arguments[name] = value


def _quiet_loggers(session: ProbeSession, package: str, logger: Any) -> Any:
    """Loggers that write files already use a temporary folder; those that send data are replaced."""
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
        logger = getattr(module, name, None)
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
        if getattr(callback, "dirpath", None) is not None:
            callback.dirpath = session.folder(f"checkpoints-{number}")
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
        aside = os.path.join(session.folder("fabric"), str(len(saved)))
        return save(self, saved.setdefault(os.path.abspath(str(path)), aside), *args, **kwargs)

    @functools.wraps(load)
    def load_aside(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return load(self, saved.get(os.path.abspath(str(path)), path), *args, **kwargs)

    fabric.save, fabric.load = save_aside, load_aside
