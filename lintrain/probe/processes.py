"""The processes that a script starts: found, measured and ended together."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_SECONDS = 0.3
ROUNDS = 5
BECOME_SUBREAPER = 36


def adopt_orphans() -> frozenset[int]:
    """Become the parent of what outlives its own parent among our descendants, so that none can hide (Linux).

    Gives the children that this process has already.
    """
    if not sys.platform.startswith("linux"):
        return frozenset()
    ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
    return frozenset(pid for pid in _all_processes() if _relations(pid)[0] == os.getpid())


def family(root: int, mark: str, others: frozenset[int] = frozenset()) -> list[int]:
    """The processes of a probe: those of the root's session, those that carry the mark in their environment, orphans in
    sessions of their own that came to us since `others` were our children, and what any of these has started.
    """
    if not Path("/proc/self/environ").exists():
        return [root] if root else []
    found = {pid: _relations(pid) for pid in _all_processes()}
    own = os.getsid(0)
    orphans = {pid for pid, (parent, session) in found.items() if parent == os.getpid() and session != own} - others
    ours = orphans | {
        pid for pid, (_, session) in found.items() if session == root != 0 or mark.encode() in _environment(pid)
    }
    while more := {pid for pid, (parent, _) in found.items() if parent in ours} - ours:
        ours |= more
    return sorted(ours)


def _all_processes() -> list[int]:
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()
    ]


def _relations(pid: int) -> tuple[int, int]:
    """Parent and session of a process; 0 and 0 for one that has ended."""
    try:
        state, parent, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return 0, 0
    return (0, 0) if state == "Z" else (int(parent), int(session))


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


def end_family(process: subprocess.Popen[bytes], mark: str, others: frozenset[int] = frozenset()) -> None:
    """End a script and everything that it started, politely first."""
    if sys.platform == "win32":
        _end_tree(process.pid)
        process.wait()
        return
    _signal_all(process.pid, mark, others, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and (process.poll() is None or family(process.pid, mark, others)):
        time.sleep(0.02)
    _signal_all(process.pid, mark, others, signal.SIGKILL)
    process.wait()
    _bury_orphans(others)


def end_left(root: int, mark: str) -> None:
    """End a script whose probe is gone, and everything that it started; `root` is 0 where nobody wrote it down."""
    if sys.platform == "win32":
        if root:
            _end_tree(root)
        return
    for _ in range(ROUNDS):  # anew for what was about to start something
        _signal_all(root, mark, frozenset(), signal.SIGKILL)
        time.sleep(GRACE_SECONDS)
        if not family(root, mark):
            return


def _end_tree(root: int) -> None:
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(root)], capture_output=True, check=False)


def _bury_orphans(others: frozenset[int]) -> None:
    """Take note of the end of adopted processes; those of this process itself are left to who started them."""
    own = os.getsid(0)
    for pid in _all_processes() if sys.platform.startswith("linux") else ():
        try:
            state, parent, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
            if state == "Z" and int(parent) == os.getpid() and int(session) != own and pid not in others:
                os.waitpid(pid, os.WNOHANG)
        except (OSError, ChildProcessError):
            continue


def _signal_all(root: int, mark: str, others: frozenset[int], number: signal.Signals) -> None:
    found = family(root, mark, others)  # before anything has ended, whose children would then be nobody's
    if root:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(root, number)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
