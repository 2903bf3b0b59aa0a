"""For processes that run scripts and are forked from one which has the libraries and the probe imported."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import weakref
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

from lintrain.runtime.child import boot, frames, own_files
from lintrain.runtime.child.frames import library_folders
from lintrain.runtime.sandbox.files import keeper, natives

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

HARNESS = tuple(f"{Path(__file__).parents[1] / folder}{os.sep}" for folder in ("pages", "support"))
"""Code that runs scripts in the place of Python: no script's own, though its frames are above those of the script."""

SCRIPT = ("__main__", "__mp_main__")


class Searched:
    """The modules that a process had before it was forked, searched once for all its children.

    A child walks through none of them: to look at thousands of modules takes as long as many a script, and copies the
    memory that they share. `guarded` hold functions that the probe's guard replaces, `natives` those of its table, and
    of the rest nothing is asked; none of them is a user's.
    """

    def __init__(self) -> None:
        self.guarded: list[tuple[str, Any]] = []
        self.natives: list[tuple[natives.Native, Any, Any]] = []
        self._last = ""

    def search(self) -> None:
        """Look through the modules that were imported since the last time."""
        originals = keeper.originals()
        table = [(native, natives_original(native)) for native in natives.NATIVES if "." not in native.name]
        for name, module in self._new():
            if any(keeper.early_copies(name, module, originals)):
                self.guarded.append((name, module))
            for native, original in table:
                if original is not None and natives.holds(name, module, native, original):
                    self.natives.append((native, original, module))
        self._last = next(reversed(sys.modules))

    def imported_before(self) -> list[tuple[str, Any]]:
        """What the guard looks through: holders of its functions, the script, and what is new."""
        return [*self._script(), *self.guarded, *self._new()]

    def early_holders(self, native: natives.Native, original: object) -> list[Any]:
        """The modules that hold a function of the guard's table."""
        known = [module for each, found, module in self.natives if each is native and found is original]
        return known + [module for name, module in self._new() if natives.holds(name, module, native, original)]

    def modules_to_list(self) -> list[Any]:
        """The modules among which those of the user are: the script, and what was imported since the fork."""
        return [module for _, module in (*self._script(), *self._new())]

    def _script(self) -> list[tuple[str, Any]]:
        return [(name, sys.modules[name]) for name in SCRIPT if name in sys.modules]

    def _new(self) -> list[tuple[str, Any]]:
        # From the end: the names at the beginning are not even read.
        names = takewhile(lambda name: name != self._last, reversed(sys.modules))
        return [(name, sys.modules[name]) for name in [*names] if name not in SCRIPT]


def natives_original(native: natives.Native) -> Any:
    """A function of the guard's table as it is now, or None if its module is not loaded."""
    return getattr(sys.modules.get(native.module), native.name, None)


searched = Searched()


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

    What is imported by now is garbage for no child: none of them has to walk through it. Nor has a probe to look at
    thousands of modules for functions that it replaces, or for files of the user.
    """
    searched.search()
    keeper.imported_before = searched.imported_before
    natives.early_holders = searched.early_holders
    own_files.modules_to_list = searched.modules_to_list
    frames.library_folders = _folders_without_user
    gc.collect()
    gc.freeze()


@cache
def _folders_without_user() -> tuple[str, ...]:
    return (*library_folders(), *HARNESS)


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
