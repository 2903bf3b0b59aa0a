"""The program of a probed notebook: Python starts this file, which runs the cells as `__main__`."""

from __future__ import annotations
import __future__

import ast
import asyncio
import inspect
import json
import linecache
import os
import sys
from types import ModuleType
from typing import Any

from lintrain.runtime.child.frames import know_cells
from lintrain.runtime.child.notebook.shell import Shell, display, provide_ipython

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
        flags |= sum(flag for flag in FUTURES.values() if code.co_flags & flag)
        result = eval(code, module.__dict__)
        if inspect.iscoroutine(result):
            asyncio.new_event_loop().run_until_complete(result)


def _main_module(shell: Shell) -> ModuleType:
    """A module for the cells, in place of this file's."""
    sys.path[0] = ""
    module = ModuleType("__main__")
    module.__dict__.update(get_ipython=lambda: shell, display=display, In=[""], Out={}, _="", __="", ___="")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


if __name__ == "__main__":
    PROGRAM = sys.modules["__main__"]  # kept alive: the names of this file go with its module
    cells = sys.argv.pop(1)
    sys.argv[0] = sys.argv[1]
    del sys.argv[1]
    run(cells)
