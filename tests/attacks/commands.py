"""Runs lintrain as a user would, within bounds, and reports how it ended and what it cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.probing import WARM_PYTHON

ROOT = Path(__file__).parents[2]
CPU_SECONDS = 10.0
"""SECURITY.md: no input below 100 KB costs more CPU time than this."""
MEMORY_BYTES = 2**30
"""SECURITY.md: nor more memory than this."""
WALL_SECONDS = 120.0

MEASURE = """
import json, os, signal, subprocess, sys, threading, time

usage, seconds, started = int(sys.argv[1]), float(sys.argv[2]), time.monotonic()
process = subprocess.Popen(sys.argv[3:], start_new_session=True)
timer = threading.Timer(seconds, process.kill)
timer.start()
_, status, used = os.wait4(process.pid, 0)
timer.cancel()
process.returncode = os.waitstatus_to_exitcode(status)
measured = {
    "code": process.returncode,
    "cpu_seconds": used.ru_utime + used.ru_stime,
    "peak_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    "wall_seconds": time.monotonic() - started,
}
os.write(usage, json.dumps(measured).encode())
"""
"""Linux counts a process's peak memory from that of the process that started it, so a small one has to start it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exit code (negative: the signal), output, CPU seconds, peak bytes of its largest process."""

    code: int
    out: bytes
    errors: bytes
    cpu_seconds: float
    peak_bytes: int
    wall_seconds: float

    @property
    def text(self) -> str:
        """Standard output and standard error."""
        return (self.out + self.errors).decode(errors="backslashreplace")


SETTLES = 0.2
"""Seconds before a run that caches: it keeps nothing if a folder has changed within the last tenth of a second.

The folder that a command gets as its home changes the one around it.
"""


def lintrain(
    folder: Path,
    *words: str | bytes,
    stdin: bytes | Path | None = None,
    seconds: float = WALL_SECONDS,
    variables: Mapping[str, str] | None = None,
    cached: bool = False,
) -> Ended:
    """Run lintrain in a folder, with a cache folder of its own if `cached`, else with none in reach."""
    with tempfile.TemporaryDirectory(prefix="lintrain-attack-") as home:
        environment = {
            **os.environ,
            "HOME": home,
            "LINTRAIN_CACHE_DIR": f"{home}/cache",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "120",
            **(variables or {}),
        }
        options = () if cached or not words or words[0] != "check" else ("--no-cache",)
        if cached:
            time.sleep(SETTLES)
        return run(folder, [sys.executable, "-P", "-m", "lintrain", *words, *options], environment, stdin, seconds)


def quick_python() -> tuple[str, ...]:
    """The option for a Python that has torch imported, where the tests have started one: imports take most seconds."""
    warm = os.environ.get(WARM_PYTHON)
    return ("--python", warm) if warm else ()


def run(
    folder: Path,
    command: Sequence[str | bytes],
    environment: Mapping[str, str],
    stdin: bytes | Path | None,
    seconds: float,
) -> Ended:
    """Run a command; one that does not end within the seconds of wall time is killed, and its code is -9."""
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        _input(stdin) as given,
        tempfile.TemporaryFile() as usage,
    ):
        measured = [sys.executable, "-I", "-S", "-c", MEASURE, str(usage.fileno()), str(seconds), *command]
        subprocess.run(
            measured,
            cwd=folder,
            env=dict(environment),
            stdin=given,
            stdout=out,
            stderr=errors,
            pass_fds=[usage.fileno()],
            check=True,
        )
        for each in (out, errors, usage):
            each.seek(0)
        return Ended(out=out.read(), errors=errors.read(), **json.load(usage))


def _input(stdin: bytes | Path | None) -> IO[bytes]:
    """What the command reads: these bytes, or a file that is there, such as a device."""
    if isinstance(stdin, Path):
        return stdin.open("rb", buffering=0)
    given = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    given.write(stdin or b"")
    given.seek(0)
    return given


def assert_bounded(ended: Ended, codes: tuple[int, ...] = (0, 1)) -> None:
    """The command ended by itself with one of the codes, within the bounds of SECURITY.md, and without a fault."""
    assert ended.code in codes, (ended.code, ended.text[-2000:])
    assert ended.cpu_seconds <= CPU_SECONDS, f"{ended.cpu_seconds:.1f} s of CPU"
    assert ended.peak_bytes <= MEMORY_BYTES, f"{ended.peak_bytes / 2**20:.0f} MiB"
    assert "bug in lintrain" not in ended.text, ended.text[-2000:]
    assert "Traceback" not in ended.errors.decode(errors="replace"), ended.text[-2000:]
