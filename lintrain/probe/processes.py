"""The processes that a script starts: found, measured and ended together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_SECONDS = 0.3


def family(root: int, mark: str) -> list[int]:
    """The processes of a probe: those of the root's session, and those that carry the mark in their environment."""
    if not Path("/proc/self/environ").exists():
        return [root]
    return [pid for pid in _all_processes() if _session(pid) == root or mark.encode() in _environment(pid)]


def _all_processes() -> list[int]:
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()
    ]


def _session(pid: int) -> int | None:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return None  # gone in the meantime
    return int(after_name.split()[3])


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""  # of another user, or gone


def resident_bytes(pids: list[int]) -> int:
    """Memory that the processes hold together, in bytes; pages they share count once for each."""
    if Path("/proc/self/statm").exists():
        return sum(_resident(pid) for pid in pids)
    listed = subprocess.run(
        ["ps", "-o", "rss=", "-p", ",".join(map(str, pids))], capture_output=True, text=True, check=False
    )
    return sum(int(line) * 1024 for line in listed.stdout.split())


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def end_family(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a script and everything that it started, politely first."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False)
        process.wait()
        return
    _signal_all(process.pid, mark, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and (process.poll() is None or family(process.pid, mark)):
        time.sleep(0.02)
    _signal_all(process.pid, mark, signal.SIGKILL)
    process.wait()


def _signal_all(root: int, mark: str, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    for pid in family(root, mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
