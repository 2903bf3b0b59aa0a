"""The processes that a script starts: found, measured and ended together.

A process that outlives a probe which is killed: it ends what the probe had started, and removes its files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lintrain.runtime.parent.remains import remove_folder, remove_shared_memory
from lintrain.runtime.parent.supervised import ScriptProcess
from lintrain.runtime.parent.supervisor import (
    LONGEST_END,
    be_subreaper,
    descendants,
    end_all,
    is_subreaper,
    own_children,
    relations,
)
from lintrain.source.reading import read_start

GRACE_SECONDS = 0.3
ROUNDS = 5


class Adoption:
    """While it lasts, this process is the parent of what outlives its own parent among its descendants (Linux).

    So none can hide. `others` are the children that this process has already. After the last of several adoptions
    at the same time the process is what it was: it may be a program of the user's that only asked for a probe.
    """

    _lock = threading.Lock()
    _lasting = 0
    _was_subreaper = False

    def __init__(self) -> None:
        self.others = frozenset[int]()
        if not sys.platform.startswith("linux"):
            return
        with Adoption._lock:
            if Adoption._lasting == 0:
                # Only the first of several probes at once sees the state of the user's own program.
                Adoption._was_subreaper = is_subreaper()
            Adoption._lasting += 1
            be_subreaper()
        self.others = frozenset(own_children())

    def end(self) -> None:
        """Adopt no more."""
        if not sys.platform.startswith("linux"):
            return
        with Adoption._lock:
            Adoption._lasting -= 1
            if Adoption._lasting == 0:
                be_subreaper(is_one=Adoption._was_subreaper)


def family(process: ScriptProcess, mark: str, others: frozenset[int] = frozenset()) -> list[int]:
    """The processes of a probe: all below its supervisor, orphans that came to us when that was killed, and what
    carries the mark in its environment, with all below these.
    """
    if process.supervisor is None:
        return [process.pid] if process.pid else []
    # Three ways to find them, since each can be evaded: by descent, by adoption, and by a variable of the environment
    # that survives `fork` and `exec`.
    ours = _orphans(others) | _marked(mark, process.pid)
    return sorted((ours | descendants([process.supervisor, *ours])) - {process.supervisor})


def _orphans(others: frozenset[int]) -> set[int]:
    """Children of this process, in sessions of their own, that came since `others` were its children."""
    # A session of their own, since a probe starts its script in a new one: children of the user's program in its
    # session are not the probe's.
    return {pid for pid in own_children() - others if _session(pid) not in (0, os.getsid(0))}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _marked(mark: str, root: int) -> set[int]:
    """The processes in the session of a script's first process (0: unknown), or with the mark in their environment."""
    pids = relations()
    # This process may carry the mark itself, when a probe runs inside of a probe.
    pids.pop(os.getpid(), None)
    return {pid for pid in pids if _session(pid) == root != 0 or mark.encode() in _environment(pid)}


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
    # `ps` gives KiB on macOS and Linux alike.
    return sum(int(line) * 1024 for line in listed.stdout.split())


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def end_family(process: ScriptProcess, mark: str, others: frozenset[int] = frozenset()) -> None:
    """End a script and everything that it started, politely first; on Linux until no process of it is left."""
    if sys.platform == "win32":
        _end_tree(process.pid)
        process.wait()
        return
    # First politely: a launcher passes the signal on, and libraries remove their shared memory.
    _signal_all(process.pid, family(process, mark, others), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and (process.poll() is None or family(process, mark, others)):
        time.sleep(0.02)
    if process.supervisor is None:
        _signal_all(process.pid, [process.pid], signal.SIGKILL)
        process.wait()
        return
    process.close()
    # A supervisor that was killed leaves its children to this process, whose own children stay out of it.
    end_all(lambda: _orphans(others - {process.supervisor or 0}), lambda: _bury_orphans(others))
    # What a killed supervisor left to init carries the mark still.
    _signal_all(0, sorted(_marked(mark, 0)), signal.SIGKILL)


def end_left(root: int, mark: str) -> None:
    """End a script whose probe is gone, and everything that it started; `root` is 0 if it was not recorded."""
    if sys.platform == "win32":
        if root:
            _end_tree(root)
        return
    for _ in range(ROUNDS):  # several rounds, for a process that was about to start another one
        if not sys.platform.startswith("linux"):
            _signal_all(root, [root] if root else [], signal.SIGKILL)
            return
        marked = _marked(mark, root)
        left = marked | descendants(marked)
        _signal_all(root, sorted(left), signal.SIGKILL)
        if not left:
            return
        time.sleep(GRACE_SECONDS)


def _end_tree(root: int) -> None:
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(root)], capture_output=True, check=False)


def _bury_orphans(others: frozenset[int]) -> None:
    """Take note of the end of adopted processes; those of this process itself are left to who started them."""
    for pid in _orphans(others):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _signal_all(group: int, pids: Sequence[int], number: signal.Signals) -> None:
    if group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


STARTED = ".started"
"""The suffix of a file next to the folder of a pass, out of the script's reach, that contains the number of the
script's process while it runs.
"""
SUPERVISED = ".supervisor"
"""The same for the script's supervisor, which ends when nothing of the script is left."""

WARDEN = """
import os, sys, time

began = time.time()

while os.read(0, 1):
    pass
sys.path.append(sys.argv[1])
from lintrain.runtime.parent.processes import end_what_is_left
end_what_is_left(sys.argv[2], began)
"""
"""Waits for the end of its input, which comes when no process holds the other end; until then it is idle."""


@contextmanager
def warden(temporary: Path) -> Generator[None]:
    """Have the folder removed in the end, and the script ended, even if this process is killed and does neither."""
    waiting: subprocess.Popen[bytes] | None = None
    try:
        # Its standard input is a pipe whose other end this process holds: when it dies, however that happens, the
        # kernel closes it, and the warden reads the end.
        waiting = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", WARDEN, str(Path(__file__).parents[3]), str(temporary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=sys.platform != "win32",  # what ends a terminal or a group of processes leaves it alone
        )
        yield
    finally:
        # Before the warden is ended: killed in between, it would be the only one left to remove the folder.
        remove_folder(temporary)
        if waiting is not None:
            waiting.kill()
            waiting.communicate()


def write_down(temporary: Path, process: int, supervisor: int | None) -> None:
    """Let the warden of a pass know the script's process, and the one that ends all of the script's on Linux."""
    with contextlib.suppress(OSError):  # without room: on Linux it is found by its environment, too
        _beside(temporary, STARTED).write_text(f"{process}\n")
        if supervisor is not None:
            _beside(temporary, SUPERVISED).write_text(f"{supervisor}\n")


def strike_out(temporary: Path) -> None:
    """The script has ended; its number may come to belong to something else."""
    for name in (STARTED, SUPERVISED):
        with contextlib.suppress(OSError):
            _beside(temporary, name).unlink()


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def end_what_is_left(temporary: str, since: float) -> None:
    """End the processes of a probe that was killed, and remove its temporary folder."""
    folder = Path(temporary)
    passes = [each for each in folder.iterdir() if each.is_dir()] if folder.is_dir() else []
    # 0 where nothing was written: the mark in the environment still finds the processes.
    for root in [number for each in passes if (number := _written_down(_beside(each, STARTED)))] or [0]:
        end_left(root, temporary)
    for supervisor in [number for each in passes if (number := _written_down(_beside(each, SUPERVISED)))]:
        _wait_for(supervisor)
    for each in passes:
        remove_shared_memory(each, since)
    remove_folder(folder)


def _wait_for(process: int) -> None:
    """Wait until a process has ended, within a bound: its number may come to belong to something else.

    A zombie that no process collects, as in a container without an init, has ended as well.
    """
    deadline = time.monotonic() + LONGEST_END
    while process in relations() and time.monotonic() < deadline:
        time.sleep(0.02)


def _written_down(file: Path) -> int:
    """The number of a process; 0 if none is written whole."""
    try:
        text = read_start(file, 100).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return 0
    number = int(text) if text.endswith("\n") and text.strip().isdecimal() else 0
    return number if number > 1 else 0  # to a system, lower ones mean many processes at once
