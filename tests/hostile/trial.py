"""One hostile script probed in a folder of a user, and everything around it before and after."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import time
from pathlib import Path

from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.launcher import Bounds
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.static_findings import check_script
from tests.hostile.scripts import Hostile

SLACK_SECONDS = 15.0
SHARED_MEMORY = Path("/dev/shm")


class Trial:
    """A user's folder, home and folder of temporary files, and one probe among them."""

    def __init__(self, script: Hostile, folder: Path, bound: float) -> None:
        self.seconds = 0.0
        self._script, self._bound, self._all = script, bound, folder
        self._users, self._home, self._temporary = folder / "users", folder / "home", folder / "tmp"
        for one in (self._users / "output", self._home, self._temporary):
            one.mkdir(parents=True)
        (self._users / "train.py").write_text(script.text)
        (self._users / "results.csv").write_text("step,loss\n")
        (self._users / "weights.pt").write_bytes(b"precious")
        (self._users / "array.npy").write_bytes(bytes(64))
        (self._users / "output" / "kept.txt").write_text("kept")
        (self._users / "link.txt").symlink_to("results.csv")
        with sqlite3.connect(self._users / "runs.sqlite") as base:
            base.execute("create table runs(id)")
        base.close()

    def run(self) -> list[str]:
        """Probe the script; what came out otherwise than it should, in words."""
        os.environ.update(HOME=str(self._home), TMPDIR=str(self._temporary), FOLDER=str(self._users))
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
        os.chdir(self._users)
        before, shared, started = state(self._all), shared_memory(), time.monotonic()
        entry, bounds = Entry(Path("train.py")), Bounds(self._bound)
        record = probe_script(Wanted(entry, sys.executable, bounds), lambda event: None)
        self.seconds = time.monotonic() - started
        conclusion = judge_record(record, check_script("train.py")).conclusion
        complaints = [f"{name} is not as before" for name in differences(before, state(self._all))]
        if conclusion.exit_code != self._script.code:
            complaints.append(f"exit code {conclusion.exit_code} and not {self._script.code}: {conclusion.reason}")
            complaints += [f"{run.failure.message} at {run.failure.code}" for run in record.runs if run.failure]
            complaints.append(record.ending.output[-500:])
        if self.seconds > self._bound + SLACK_SECONDS:
            complaints.append(f"it took {self.seconds:.0f} s")
        complaints += [f"shared memory {name} stays" for name in sorted(shared_memory() - shared)]
        return complaints + [f"process {pid} runs on" for pid in processes_in(self._all)]


def state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Everything below a folder: mode, time of the last change, content."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {name: (path.lstat().st_mode, path.lstat().st_mtime_ns, _content(path)) for name, path in found.items()}


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def differences(before: dict[str, tuple[int, int, str]], after: dict[str, tuple[int, int, str]]) -> list[str]:
    """Names whose state is another one; the folder of temporary files is written to by definition."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [name for name in names if name != "tmp"]


def shared_memory() -> set[str]:
    """Names of shared memory that scripts may leave."""
    names = {path.name for path in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set[str]()
    return {name for name in names if name.startswith(("psm_", "torch_"))}


def processes_in(folder: Path) -> list[int]:
    """Processes that were started from below a folder."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_in(entry, folder)]


def _is_in(entry: Path, folder: Path) -> bool:
    try:
        return int(entry.name) != os.getpid() and (entry / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False  # gone, or of another user
