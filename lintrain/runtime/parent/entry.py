"""The ways into a run: a script, a module, a notebook, and the commands that usually launch them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from lintrain.runtime.parent.cells import cells_of
from lintrain.startup.lazy_dataclass import dataclass

NOTEBOOK_MAIN = Path(__file__).parent.parent / "child" / "notebook" / "main.py"
FIND_MODULE = """
import os, sys

def find(name, path):
    specs = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)

parts, path, spec = sys.argv[1].split("."), None, None
for depth in range(len(parts)):
    spec = find(".".join(parts[: depth + 1]), path)
    path = spec.submodule_search_locations if spec else None
    if path is None:
        break
if spec and path is not None and depth == len(parts) - 1:
    spec = find(sys.argv[1] + ".__main__", path)
if spec and depth == len(parts) - 1 and spec.origin and spec.origin.endswith(".py"):
    print(os.path.abspath(spec.origin))
"""
"""Where the code of `python -m` lies, found without importing its packages: that would run the user's code."""


class NoEntryError(Exception):
    """What was asked for cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What starts a run: `script` is the file whose text is checked, `module` its name where `-m` starts it.

    `environment` holds what a launcher would have set; `shortcuts` says what of the launcher was left out.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    module: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    shortcuts: tuple[str, ...] = ()

    @property
    def is_notebook(self) -> bool:
        """Whether its cells are run in place of a script."""
        return self.script.suffix == ".ipynb"

    def prepare(self, exchange: Path) -> tuple[list[str], tuple[str, ...]]:
        """The words after the name of the Python, and what of the notebook is skipped; raises UnreadableError."""
        if self.module is not None:
            return ["-m", self.module, *self.arguments], ()
        if not self.is_notebook:
            return [str(self.script), *self.arguments], ()
        document, skipped = cells_of(self.script)
        cells = exchange / "cells.json"
        cells.write_text(json.dumps(document), encoding="utf-8")
        return [str(NOTEBOOK_MAIN), str(cells), str(self.script), *self.arguments], skipped


def file_of_module(python: str, module: str) -> Path:
    """The file that `python -m module` runs, seen from this folder; raises NoEntryError."""
    asked = [python, "-c", FIND_MODULE, module]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoEntryError(f"{python}: cannot be started ({error})") from error
    if not found:
        raise NoEntryError(f"no module `{module}` in this folder; `-m` takes what `python -m` takes")
    path, here = Path(found), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
