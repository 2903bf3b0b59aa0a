"""Intercept Lightning's Trainer, under both names of the library, and Fabric."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.lightning.quiet import (
    quiet_arguments,
    redirect_saving,
    redirected_loggers,
    without_distribution,
)

LIBRARIES = ("lightning.pytorch", "pytorch_lightning")
FABRICS = ("lightning.fabric", "lightning_fabric")
MODULES = ("LightningModule", "LightningDataModule")
EVALUATIONS = ("validate", "test", "predict")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the classes as soon as the script imports them."""
    session.signs_of_construction.append(is_of_a_module)
    for library in LIBRARIES:
        hooks.add(f"{library}.trainer.trainer", lambda module: _patch_trainer(session, module.Trainer))
        for name in ("csv_logs", "tensorboard"):
            hooks.add(f"{library}.loggers.{name}", functools.partial(redirected_loggers, session))
    for library in FABRICS:
        hooks.add(f"{library}.fabric", lambda module: _patch_fabric(session, module.Fabric))


def is_of_a_module(error: BaseException) -> bool:
    """Whether a module or a data module of Lightning was being made when an error was raised."""
    step = error.__traceback__
    while step is not None:
        code, given = step.tb_frame.f_code, step.tb_frame.f_locals
        # By the frames: the error comes before any Trainer exists, and the class of the script may have any name.
        if code.co_name == "__init__" and any(_is_module(given.get(name)) for name in code.co_varnames[:1]):
            return True
        step = step.tb_next
    return False


def _is_module(value: object) -> bool:
    return any(base.__name__ in MODULES for base in type(value).__mro__)


def _patch_trainer(session: ProbeSession, trainer: Any) -> None:
    build = trainer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        location = frame_location(users_frame(skip=self))
        self.__dict__["lintrain_construction"], self.__dict__["lintrain_asked"] = location, dict(kwargs)
        # A keyword next to positional arguments could give one of them twice.
        if session.is_root and not args:
            quiet_arguments(session, self, kwargs)
        try:
            build(self, *args, **kwargs)
        except Exception as error:
            if session.construction_error is None:
                session.construction_error, session.construction_location = error, location
            raise

    trainer.__init__ = init
    trainer.fit = _entered(session, trainer.fit)
    for entry in EVALUATIONS:
        setattr(trainer, entry, _entered(session, getattr(trainer, entry)))


def _entered(session: ProbeSession, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # `fit` calls validation inside, and a tuner calls `fit`: only the outermost call is the script's.
        if session.measuring or session.watch.is_guided or not session.is_root:
            return original(self, *args, **kwargs)
        from lintrain.runtime.frameworks.lightning.stages import evaluate, fit

        measure: Callable[..., Any] = fit if original.__name__ == "fit" else evaluate
        return _guarded(session, lambda location: measure(session, self, original, location, args, kwargs))

    return call


def _guarded(session: ProbeSession, measure: Callable[[Location | None], Any]) -> Any:
    """The result of a call after which the script continues; any other call ends the process."""
    location = frame_location(users_frame())
    try:
        return measure(location)
    # The user's own wish to end is passed on; it is no error of the probe.
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if session.following.is_between:
            raise  # of an evaluation that is the script's own
        session.on_own_error(error)
    return session.finish()


def _patch_fabric(session: ProbeSession, fabric: Any) -> None:
    build = fabric.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # Also in worker processes: a loop is one of Fabric wherever the script runs it.
        session.launcher = "fabric"
        if session.is_root and not args:
            without_distribution(session, kwargs)
        build(self, *args, **kwargs)

    fabric.__init__ = init
    redirect_saving(session, fabric)
