"""Scripts run for real, on the tiny offline stand-ins, and what they did compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.checking import ENTRY, project_of, written
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import Mutant
from tools.build_fixtures import build, offline_environment

ROOT = Path(__file__).parent.parent.parent
SECONDS = 150.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left: its trace by channel, and its printed lines; `channels` is empty where it was killed."""

    channels: dict[str, Any]  # Any: what JSON holds

    @property
    def error(self) -> str | None:
        """The error that the script ended with."""
        return self.channels["error"][-1] if self.channels else "killed: it ran too long"


class Runner:
    """A server process, and the runs of correct scripts that were made already."""

    def __init__(self) -> None:
        build()
        self._originals: dict[str, Run] = {}
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.accuracy.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **offline_environment(), **QUIET, "PYTHONPATH": str(ROOT)},
        )

    def original(self, code: Code) -> Run:
        """The run of a script as it is."""
        if code.path not in self._originals:
            self._originals[code.path] = self.run(code, code.text)
        return self._originals[code.path]

    def run(self, code: Code, text: str, others: Mapping[str, str] | None = None) -> Run:
        """Run a script with this text, its project and these other files around it, in a folder of its own."""
        path = Path(code.path)
        with (
            written(code, text, others) as (folder, target),
            tempfile.TemporaryDirectory(prefix="lintrain-trace-") as made,
        ):
            entry = folder / ENTRY if project_of(path) else target
            if target.suffix == ".ipynb":
                entry = target.with_suffix(".py")
                entry.write_text(text)
            shutil.copytree(DATA, folder, dirs_exist_ok=True)
            trace = Path(made) / "trace.json"
            self._ask({"script": str(entry), "folder": str(folder), "trace": str(trace), "seconds": SECONDS})
            channels = json.loads(trace.read_text()) if trace.exists() else {}
            printed = folder / "output.txt"
            channels["printed"] = printed.read_text(errors="replace").splitlines() if printed.exists() else []
            if "error" not in channels:
                channels = {}
            return Run(channels)

    def _ask(self, asked: dict[str, Any]) -> None:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        if not self._server.stdout.readline():
            raise RuntimeError("the process that runs scripts ended")


QUIET = {"KERAS_BACKEND": "torch", "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"}
DATA = Path(__file__).parent / "scripts" / "_data"
"""Data files that lie beside every script when it runs."""


def doubts(mutant: Mutant, runner: Runner) -> str:
    """Why a mutant's mistake is not proven by running it; empty where it is: a named channel differs."""
    original = runner.original(mutant.script)
    if original.error:
        return f"the correct script ends with {original.error[:200]}"
    run = runner.run(mutant.script, mutant.text)
    if not run.channels:
        return str(run.error)
    if run.error and "error" not in mutant.injection.shows:
        return f"it ends with {run.error[:200]}"
    differing = [name for name in mutant.injection.shows if run.channels.get(name) != original.channels.get(name)]
    return "" if differing else f"it does the same as the correct script ({', '.join(mutant.injection.shows)})"
