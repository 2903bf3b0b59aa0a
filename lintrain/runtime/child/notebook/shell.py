"""What a kernel gives a notebook beside Python: a shell that runs nothing, and display functions that show nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Shell(list[str]):
    """What `get_ipython()` gives: no lines of any command, and only those magics that later cells depend on."""

    def run_line_magic(self, magic: str, line: str = "", *_others: Any) -> None:
        """Carry out `%cd` and `%env`; nothing else."""
        text = line.strip()
        if magic == "cd" and text:
            os.chdir(os.path.expanduser(text.strip("'\"")))
        elif magic in ("env", "set_env"):
            name, _, value = text.partition("=") if "=" in text else text.partition(" ")
            if value.strip():
                os.environ[name.strip()] = value.strip()

    def magic(self, line: str) -> None:
        """The old way to write a line magic."""
        name, _, rest = line.partition(" ")
        self.run_line_magic(name.lstrip("%"), rest)

    def run_cell_magic(self, *_: Any) -> None:
        """Nothing."""

    def system(self, *_: Any) -> None:
        """Nothing."""

    def getoutput(self, *_: Any) -> list[str]:
        """No lines."""
        return self


class Nothing:
    """Stands for what IPython's display module holds: made from anything, shown nowhere."""

    def __init__(self, *_: Any, **__: Any) -> None:
        return

    def __call__(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def update(self, *_: Any, **__: Any) -> None:
        """Nothing."""


def display(*_: Any, **__: Any) -> Nothing:
    """Show nothing; IPython's own prints every object."""
    return Nothing()


def provide_ipython(get_ipython: Callable[[], Shell]) -> None:
    """Let a notebook import IPython where this Python, which is not its kernel's, has none."""
    if find_spec("IPython") is not None:
        return
    package, shown = ModuleType("IPython"), ModuleType("IPython.display")
    package.__path__ = []
    package.__dict__.update(get_ipython=get_ipython, display=shown, version_info=(9, 0, 0, ""), __version__="9.0.0")
    shown.__dict__["display"] = display
    shown.__dict__["__getattr__"] = _display_function
    for module in (package, shown):
        module.__spec__ = ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module


def _display_function(name: str) -> type[Nothing]:
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing
