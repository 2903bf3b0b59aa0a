"""A run of Lightning, measured in this process: its own `fit`, shortened, and everything restored afterwards."""

from __future__ import annotations

from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.frameworks.lightning.facts import RECORDED
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.frameworks.lightning.quiet import package_of
from lintrain.runtime.frameworks.lightning.stages import fit
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.in_process.restoring import as_before
from lintrain.runtime.in_process.session import InProcessSession
from lintrain.runtime.in_process.unhooking import hooked

SHOWING = ("ProgressBar", "ModelSummary")


def is_lightning_trainer(value: object) -> bool:
    """Whether an object is a Trainer of Lightning, under one of its names."""
    modules = (loaded(f"{name}.trainer.trainer") for name in LIBRARIES)
    return any(module is not None and isinstance(value, module.Trainer) for module in modules)


def measure_fit(session: InProcessSession, trainer: Any, module: Any, data: Any, call: Location | None) -> None:
    """A few batches of training and two of validation; raises RunEnded when everything was measured."""
    watch = session.watch = Watch(session)
    with as_before(trainer, module, data), hooked(watch):
        _quieten(session, trainer)
        fit(session, trainer, trainer.__class__.fit, call, (module,), _given(trainer, data))


def _given(trainer: Any, data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    modules = library(f"{package_of(trainer)}.core.datamodule")
    return {"datamodule" if isinstance(data, modules.LightningDataModule) else "train_dataloaders": data}


def _quieten(session: InProcessSession, trainer: Any) -> None:
    """Nothing is logged, shown, profiled or saved; what the Trainer was made with is read from itself."""
    package = package_of(trainer)
    asked = {name: getattr(trainer, name, None) for name in RECORDED if hasattr(trainer, name)}
    trainer.__dict__["lintrain_asked"] = {name: value for name, value in asked.items() if _is_scalar(value)}
    dummy = library(f"{package}.loggers.logger").DummyLogger
    trainer.loggers = [dummy() for _ in trainer.loggers]
    trainer.profiler = library(f"{package}.profilers").PassThroughProfiler()
    trainer._default_root_dir = session.folder("output")
    trainer.callbacks[:] = [each for each in trainer.callbacks if not _shows(each)]
    session.note("nothing is logged, and checkpoints go to a temporary folder")


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _shows(callback: Any) -> bool:
    """Whether a callback only shows how the run goes, or is lintrain's own watch of a run that is meant."""
    names = {kind.__name__ for kind in type(callback).__mro__}
    return bool(names & set(SHOWING)) or type(callback).__module__.startswith("lintrain.")
