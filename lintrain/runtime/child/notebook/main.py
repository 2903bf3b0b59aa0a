"""The program of a probed notebook: Python starts this file, which runs the cells as `__main__`.

What a kernel gives beside Python is replaced: a shell that runs nothing, and display functions that show nothing.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import inspect
import json
import linecache
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from lintrain.runtime.child.frames import know_cells

FUTURES = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}


def run(path: str) -> None:
    """Run every cell of a prepared notebook in a fresh `__main__`, in its folder."""
    with open(path, encoding="utf-8") as opened:
        notebook: dict[str, Any] = json.load(opened)
    file, lines = notebook["path"], notebook["lines"]
    know_cells(file, [tuple(cell) for cell in notebook["cells"]])
    # without a time, `linecache` never asks the disk, where the lines of the JSON are
    linecache.cache[file] = (0, None, [f"{line}\n" for line in lines], file)
    module = _main_module(Shell())
    if any("IPython" in line for line in lines):
        provide_ipython(module.__dict__["get_ipython"])
    os.chdir(os.path.dirname(file))
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for _, first, last in notebook["cells"]:
        # the line above a cell is ours; where the cell starts indented, it is what makes that an allowed start
        text = "\n" * (first - 2) + "\n".join(lines[first - 2 : last])
        code = compile(text, file, "exec", flags, dont_inherit=True)
        # A `from __future__` in one cell holds for all cells after it, as in a kernel; `compile` would forget it.
        flags |= sum(flag for flag in FUTURES.values() if code.co_flags & flag)
        result = eval(code, module.__dict__)
        # Only a cell with an `await` at its top level gives a coroutine. Each gets a loop of its own,
        # which nothing else runs in.
        if inspect.iscoroutine(result):
            asyncio.new_event_loop().run_until_complete(result)


def _main_module(shell: Shell) -> ModuleType:
    """A module for the cells, in place of this file's."""
    # A kernel imports from the notebook's folder; Python put the folder of this file there.
    sys.path[0] = ""
    module = ModuleType("__main__")
    module.__dict__.update(get_ipython=lambda: shell, display=display, In=[""], Out={}, _="", __="", ___="")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


class Shell(list[str]):
    """What `get_ipython()` gives: no lines of any command, and only those magics that later cells depend on."""

    def run_line_magic(self, magic: str, line: str = "", *_others: Any) -> None:
        """Carry out `%cd` and `%env`; nothing else."""
        text = line.strip()
        if magic == "cd" and text:
            try:
                os.chdir(os.path.expanduser(text.strip("'\"")))
            except OSError as error:
                sys.stderr.write(f"{error}\n")  # as in IPython, the next cells run in the folder that it was in
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
    # The import system asks a module for `__path__` and `__spec__`: a class would be taken for one.
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing


if __name__ == "__main__":
    PROGRAM = sys.modules["__main__"]  # kept alive: the names of this file go with its module
    cells = sys.argv.pop(1)
    sys.argv[0] = sys.argv[1]
    del sys.argv[1]
    run(cells)
