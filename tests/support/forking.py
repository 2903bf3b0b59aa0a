"""For processes that run scripts and are forked from one which has the libraries and the probe imported."""

from __future__ import annotations

import atexit
import gc
import sys
import weakref
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

from lintrain.runtime.child import boot, frames
from lintrain.runtime.sandbox.files import keeper

__all__ = ["boot", "get_ready_to_fork", "load_libraries", "load_package", "pass_for_started_in", "write_dataclasses"]

LIBRARIES = (
    "torch.utils.data",
    "transformers.trainer",
    "transformers.trainer_seq2seq",
    "datasets",
    "evaluate",
    "scipy.io",
    "pyarrow.acero",
    "transformers.conversion_mapping",
    "transformers.models.bert.tokenization_bert",
    "transformers.models.distilbert.modeling_distilbert",
    "transformers.models.distilbert.tokenization_distilbert",
    *(
        f"lintrain.runtime.frameworks.{name}"
        for name in ("driver", *(f"trainer.{each}" for each in ("continuing", "evaluation", "stages", "step")))
    ),
)
"""What nearly every script imports by itself or by what it calls, and what the probe imports with the training."""

NOT_EVERYWHERE = ("torch.profiler._cupti_monitor",)
"""Of those, modules that other versions of a library do not have."""

LOADED_LATE = {
    "trl": ("trl.trainer.dpo_trainer", "trl.trainer.reward_trainer", "trl.trainer.sft_trainer"),
}
"""Modules that a package imports only when one of its names is used: half a second of each script, with wandb."""

_searched: dict[str, ModuleType] = {}
"""Modules that are known to hold no function of those that the probe puts its guard in place of."""


def load_libraries() -> None:
    """Import the libraries and have them make what they make once in a process."""
    for name in LIBRARIES:
        import_module(name)
    for name in NOT_EVERYWHERE:
        with suppress(ModuleNotFoundError):
            import_module(name)
    # A thousand regular expressions, compiled when the first model is loaded.
    sys.modules["transformers.conversion_mapping"].get_checkpoint_conversion_mapping("bert")
    write_dataclasses()


def load_package(name: str) -> None:
    """Import a package with the modules of it that take long and that scripts come to by its names."""
    for each in (name, *LOADED_LATE.get(name, ())):
        import_module(each)


def get_ready_to_fork() -> None:
    """Do what every child would do again, or what would copy the memory that it shares with this process.

    What is imported by now is garbage for no child: none of them has to walk through it. Nor has the probe's guard to
    look at every name of thousands of modules for a function that it replaces: what holds none is left out.
    """
    originals = keeper.originals()
    for name, module in list(sys.modules.items()):
        is_new = _searched.get(name) is not module and name not in ("__main__", "__mp_main__")
        if is_new and not any(keeper.early_copies(name, module, originals)):
            _searched[name] = module
    keeper.imported_before = _not_searched
    gc.collect()
    gc.freeze()


def _not_searched() -> list[tuple[str, Any]]:
    return [(name, module) for name, module in list(sys.modules.items()) if _searched.get(name) is not module]


def write_dataclasses() -> None:
    """Have the dataclasses of lintrain write the methods that they otherwise write when they are first used."""
    modules = [module for name, module in sys.modules.items() if name.startswith("lintrain.")]
    for cls in {each for module in modules for each in vars(module).values() if isinstance(each, type)}:
        for name in ("__init__", "__eq__", "__repr__"):
            getattr(cls, name)


def pass_for_started_in(folder: str) -> None:
    """Let a process that was just forked work as if Python had been started in a folder."""
    frames.START_FOLDER = folder
    # What the libraries take apart at their exit is that of the first process; it costs more than many a script.
    registered: dict[Any, Any] = weakref.finalize._registry  # type: ignore[attr-defined]  # there is no other way to it
    for finalizer in [*registered]:
        finalizer.atexit = False
    # Imports a package to print a table that nobody asked for.
    compiled = sys.modules.get("torch._dynamo.utils")
    if compiled is not None:
        atexit.unregister(compiled.dump_compile_times)
