"""The ways into a run: a script, a module, a notebook, and the commands that usually launch them.

A notebook's cells as a probe runs them: what is Python, and the magics that change the process.

Start the script of a probe again, in fresh processes, to follow its first steps.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import IO, Any

from lintrain.runtime.child.going_on import CELLS
from lintrain.runtime.parent.download_folders import paths_of_downloads
from lintrain.runtime.parent.events import Event
from lintrain.runtime.parent.launcher import Bounds, Launch, package_folder
from lintrain.runtime.parent.launchers import one_process
from lintrain.runtime.parent.pass_request import PassRequest, TimelineRequest, new_exchange
from lintrain.runtime.parent.timeline import Timeline, UnmeasuredError, wait_in_vain
from lintrain.source.magics import PYTHON_CELL_MAGICS, Cell, Notebook
from lintrain.source.reading import UnreadableError, load_bytes, read_file
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

EDITED_MAIN = Path(__file__).parent.parent / "child" / "edited.py"
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

    def with_text(self, text: str, exchange: Path) -> list[str]:
        """The words that run another text in place of the script."""
        argv = [str(self.script), *self.arguments]
        document = {"path": str(self.script.absolute()), "text": text, "argv": argv}
        file = exchange / "edited.json"
        file.write_text(json.dumps(document), encoding="utf-8")
        return [str(EDITED_MAIN), str(file)]

    @property
    def one_of_many(self) -> str:
        """The probe of one run, where the arguments ask Hydra for several (a multirun); else empty."""
        if not {"-m", "--multirun"}.intersection(self.arguments) or self.script.suffix != ".py":
            return ""
        rest = [word.partition(",")[0] for word in self.arguments if word not in ("-m", "--multirun")]
        is_hydra = b"hydra" in load_bytes(str(self.script))
        return " ".join(["lintrain probe", str(self.script), "--", *rest]) if is_hydra else ""

    def prepare(self, exchange: Path) -> tuple[list[str], tuple[str, ...]]:
        """The words after the name of the Python, and what of the notebook is skipped; raises UnreadableError."""
        if self.module is not None:
            return ["-m", self.module, *self.arguments], ()
        if not self.is_notebook:
            return [str(self.script), *self.arguments], ()
        document, skipped = cells_of(self.script)
        cells = exchange / CELLS
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


CARRIED_OUT = lazy_pattern(r"(?P<indent>\s*)%?(?P<magic>cd|env|set_env)\s+(?P<rest>\S.*)")
"""Magics that what follows depends on; every other one shows something, measures time, or sets IPython up."""

SHELL_MAGICS = "alias|cat|conda|cp|less|load|ls|mamba|mkdir|more|mv|pip|rm|rmdir|run|sx|system|uv"
SHELL = lazy_pattern(rf"(?:[\w.,\s\[\]'\"]+?=\s*)?\s*(?:!.*|%?(?:{SHELL_MAGICS})\b.*)")
MOST_CHARACTERS = 60


def cells_of(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the probed process needs to run a notebook, and what of it is skipped; raises UnreadableError."""
    source = read_file(str(path))
    if source.notebook is None:
        raise UnreadableError("not a notebook")
    document: dict[str, Any] = {
        "path": str(path.absolute()),
        "lines": [_as_run(source, number) for number in range(1, len(source.lines) + 1)],
        "cells": [(cell.number, cell.first_line, cell.last_line) for cell in source.notebook.cells],
    }
    return document, tuple(_skipped(source.notebook))


def _as_run(source: Source, line: int) -> str:
    """A line of the joined text; a magic that is executed calls the shell that the process is given."""
    original = source.notebook.masked.get(line, "") if source.notebook else ""
    match = CARRIED_OUT.fullmatch(original)
    if match is None or not source.lines[line - 1].strip():
        return source.lines[line - 1]
    return f"{match['indent']}get_ipython().run_line_magic({match['magic']!r}, {match['rest'].strip()!r})"


def _skipped(notebook: Notebook) -> Iterator[str]:
    """What is not Python and is not executed, in the words of the report."""
    for cell in notebook.cells:
        masked = [line for line in range(cell.first_line, cell.last_line + 1) if line in notebook.masked]
        if masked and _is_other_language(notebook.masked[masked[0]]):
            yield f"cell {cell.number} was skipped: `{_clipped(notebook.masked[masked[0]])}`"
            continue
        yield from (_skipped_line(notebook, cell, line) for line in masked if SHELL.fullmatch(notebook.masked[line]))


def _skipped_line(notebook: Notebook, cell: Cell, line: int) -> str:
    return f"cell {cell.number}, line {line - cell.first_line + 1} was skipped: `{_clipped(notebook.masked[line])}`"


def _is_other_language(line: str) -> bool:
    return line.startswith("%%") and line[2:].split()[:1] not in [[magic] for magic in PYTHON_CELL_MAGICS]


def _clipped(line: str) -> str:
    text = line.strip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 2]} …"


Listen = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ScriptStarts:
    """How the script is started again; `ends` is the moment (`time.monotonic`) at which no time is left."""

    entry: Entry
    python: str
    bounds: Bounds
    ends: float
    temporary: Path
    sample_rows: int
    listen: Listen
    echo: IO[bytes] | None = None
    offline: bool = False
    allows_unused: bool = False
    stand_ins: bool = False
    stand_in_data: str = ""

    def folder(self) -> Path:
        """A fresh folder for the files of a pass; a pass in the same one finds what the other wrote."""
        return Path(tempfile.mkdtemp(dir=self.temporary))

    def follow(self, folder: Path, timeline: TimelineRequest, text: str | None = None) -> Timeline:
        """One pass, of another text of the script if there is one; raises UnmeasuredError where no time is left."""
        exchange = new_exchange(folder)
        command = self.entry.prepare(exchange)[0] if text is None else self.entry.with_text(text, exchange)
        found = Timeline()
        bounds = self._bounds()
        request = self._request(folder, exchange, timeline)
        launch = Launch(request, [self.python, *command], self.entry.environment, self.echo)
        found.ending = launch.follow(bounds, found.add)
        return found

    def _bounds(self) -> Bounds:
        seconds = self.ends - time.monotonic()
        # Importing the libraries alone takes longer: a pass that cannot end is not started.
        if seconds < 1.0:
            went_by = f"the {self.bounds.seconds:g} s of the probe had passed"
            raise UnmeasuredError(f"{went_by} (`--timeout` sets the limit)")
        return replace(self.bounds, seconds=seconds)

    def _request(self, folder: Path, exchange: Path, timeline: TimelineRequest) -> PassRequest:
        return PassRequest(
            script=str(self.entry.script),
            folder=str(Path.cwd()),
            package=package_folder(),
            temporary=str(folder),
            exchange=str(exchange),
            device="cpu",
            sample_rows=self.sample_rows,
            downloads=paths_of_downloads(),
            timeline=timeline,
            offline=self.offline,
            stand_ins=self.stand_ins,
            stand_in_data=self.stand_in_data,
        )

    def follow_ranks(self, folder: Path, timeline: TimelineRequest, processes: int) -> list[Timeline]:
        """One pass in which torch's own launcher starts the script several times."""
        found = [Timeline() for _ in range(processes)]
        exchange = new_exchange(folder)
        bounds, request = self._bounds(), self._request(folder, exchange, timeline)
        command = [self.python, *self._launched(exchange, processes)]
        launch = Launch(request, command, self.entry.environment, self.echo, senders=1 + processes)

        def listen(event: Event) -> None:
            # The number comes from the script's process: it is checked before it is used as an index.
            if isinstance(rank := event.get("rank"), int) and rank < processes:
                found[rank].add(event)
            # A rank that is done waits for the others, and torch's launcher waits for its ranks: the pass is ended
            # from here once all have reported.
            is_over = all(timeline.facts.get("done") for timeline in found) or wait_in_vain(found)
            if is_over and launch.assembly.end is None:
                launch.assembly.end = {"kind": "measured", "reason": "", "files": ()}

        ending = launch.follow(bounds, listen)
        for each in found:
            each.ending = ending
        return found

    def _launched(self, exchange: Path, processes: int) -> list[str]:
        command, _ = self.entry.prepare(exchange)
        # A free port for each pass: the default one may be in use by a real training on this machine.
        port = one_process()["MASTER_PORT"]
        where = ["--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", port]
        return ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(processes), *command]
