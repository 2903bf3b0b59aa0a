"""Attacks on the end of a probe: processes that a script starts and that try to run on after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import ROOT
from tests.attacks.sending import TRAINING
from tests.support.notebooks import notebook

LIFE = 40
"""Seconds after which every process of these scripts ends by itself, held or not."""

HEAD = f"""
import ctypes, os, signal, subprocess, sys, threading, time

ENDS = time.monotonic() + {LIFE}
os.chdir(os.environ["ATTACK_PLACE"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stay():
    while time.monotonic() < ENDS:
        time.sleep(0.05)
    os._exit(0)


def daemon(action=stay):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            action()
            os._exit(0)
        os._exit(0)
    os.wait()


SLEEPS = [sys.executable, "-I", "-S", "-c", "import signal,time; signal.signal(15, 1); time.sleep({LIFE})"]
"""

WAYS = {
    "ignores-sigterm": "subprocess.Popen(SLEEPS)",
    "session-of-its-own": "subprocess.Popen(SLEEPS, start_new_session=True)",
    "empty-environment": "subprocess.Popen(SLEEPS, start_new_session=True, env={})",
    "daemon": "daemon()",
    "daemon-with-an-empty-environment": "daemon(lambda: os.execv('/usr/bin/env', ['env', '-i', *SLEEPS]))",
    "forks-again-and-again": """
def chain():
    while time.monotonic() < ENDS:
        if os.fork():
            os._exit(0)
        os.setsid()
daemon(chain)
""",
    "two-that-replace-each-other": """
def watch(other):
    while time.monotonic() < ENDS:
        try:
            os.kill(other, 0)
        except OSError:
            mine = os.getpid()
            other = os.fork()
            if other == 0:
                os.setsid()
                other = mine
        time.sleep(0.001)
    os._exit(0)
def pair():
    first = os.getpid()
    second = os.fork()
    watch(second or first)
daemon(pair)
""",
    "a-bush": """
def bush():
    for _ in range(6):
        os.fork()
    os.setsid() if os.getpid() != os.getsid(0) else None
    stay()
daemon(bush)
""",
    "subreaper-of-its-own": """
def reaper():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    daemon()
    stay()
daemon(reaper)
""",
    "child-of-its-parent": """
pid = ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0)
if pid == 0:
    os.setsid()
    stay()
""",
    "stopped": """
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()
daemon(stopped)
""",
    "by-a-shell": "subprocess.run(['sh', '-c', \"(trap '' TERM HUP; setsid sleep 40 </dev/null >/dev/null 2>&1 &)\"])",
    "by-a-thread": "threading.Thread(target=daemon).start(); time.sleep(0.3)",
    "kills-its-supervisor": """
daemon(lambda: os.execv('/usr/bin/env', ['env', '-i', *SLEEPS]))
try:
    os.kill(os.getppid(), signal.SIGKILL)
except OSError:
    pass
""",
    "stops-its-supervisor": """
daemon(lambda: os.execv('/usr/bin/env', ['env', '-i', *SLEEPS]))
try:
    os.kill(os.getppid(), signal.SIGSTOP)
except OSError:
    pass
""",
}
KILLED = ("daemon-with-an-empty-environment", "forks-again-and-again", "two-that-replace-each-other", "daemon")
LAUNCHERS = {
    "torchrun": ("torchrun", "--nproc-per-node", "2"),
    "accelerate": ("accelerate", "launch", "--num_processes", "2"),
    "python-m": ("python", "-m", "torch.distributed.run", "--nproc-per-node", "2"),
}


def _staying(location: Path) -> list[int]:
    """The processes that work in a folder, which only those of the script do."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if each.readlink() == location:
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found


def _assert_none_stays(location: Path) -> None:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and any(_staying(location) for _ in range(5)):
        time.sleep(0.05)
    for _ in range(20):
        left = _staying(location)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"{len(left)} processes of the script run on"


def _started(folder: Path, way: str, rest: str, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A running probe of a script that starts processes and then waits until somebody opens its pipe."""
    waits = f"open({str(folder / 'pipe')!r}, 'rb')\n"
    os.mkfifo(folder / "pipe")
    (folder / "train.py").write_text(HEAD + WAYS[way] + "\n" + waits + rest)
    (folder / "train.ipynb").write_text(notebook(HEAD, WAYS[way] + "\n" + waits, rest))
    return _probing(folder, *words)


def _probing(folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
    if not sys.platform.startswith("linux"):
        raise NotPossibleError("only Linux has subreapers and /proc")
    location = folder / "place"
    location.mkdir()
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ATTACK_PLACE": str(location),
        "LINTRAIN_CACHE_DIR": str(folder / "cache"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-P", "-m", "lintrain", "probe", *(words or ("train.py",))]
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=variables, stdin=nothing, stdout=nothing, stderr=nothing), location


def _let_go_on(running: subprocess.Popen[bytes], pipe: Path) -> None:
    """Wait until the script has started its processes."""
    deadline = time.monotonic() + 30
    while running.poll() is None and time.monotonic() < deadline:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the script did not get so far")


@attack("a-probe-leaves-no-process", cases=tuple(WAYS))
def outlives_the_script(folder: Path, way: str) -> None:
    """What runs on when the script has ended is ended with it."""
    running, location = _started(folder, way, "os._exit(0)\n")
    _let_go_on(running, folder / "pipe")
    running.wait(60)
    _assert_none_stays(location)


@attack("a-probe-leaves-no-process", cases=KILLED)
def outlives_a_killed_lintrain(folder: Path, way: str) -> None:
    """Nothing of the script runs on where lintrain gets SIGKILL and can end nothing itself."""
    running, location = _started(folder, way, "stay()\n")
    _let_go_on(running, folder / "pipe")
    running.kill()
    running.wait()
    _assert_none_stays(location)


@attack("a-probe-leaves-no-process", cases=tuple(LAUNCHERS))
def outlives_a_launched_script(folder: Path, launcher: str) -> None:
    """The same for a script that a launcher would start."""
    way = "daemon-with-an-empty-environment"
    running, location = _started(folder, way, "os._exit(0)\n", "--", *LAUNCHERS[launcher], "train.py")
    _let_go_on(running, folder / "pipe")
    running.wait(60)
    _assert_none_stays(location)


@attack("a-probe-leaves-no-process", cases=KILLED)
def outlives_a_notebook(folder: Path, way: str) -> None:
    """The same for what a notebook's cells start."""
    running, location = _started(folder, way, "os._exit(0)\n", "train.ipynb")
    _let_go_on(running, folder / "pipe")
    running.wait(60)
    _assert_none_stays(location)


@attack("a-probe-leaves-no-process", cases=KILLED, slow=True)
def outlives_two_ranks(folder: Path, way: str) -> None:
    """The same for what the two ranks of a script start, each in its own run of it."""
    (folder / "train.py").write_text(HEAD + WAYS[way] + "\n" + TRAINING)
    running, location = _probing(folder, "--also", "ranks", "train.py")
    ranks: set[bytes] = set()
    while running.poll() is None:
        ranks.update(_rank(pid) for pid in _staying(location))
        time.sleep(0.02)
    _assert_none_stays(location)
    assert ranks >= {b"0", b"1"}, "the two ranks did not run"


def _rank(pid: int) -> bytes:
    """The rank that torch's launcher gave a process, if it did."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return b""
    return next((each.removeprefix(b"RANK=") for each in variables if each.startswith(b"RANK=")), b"")


@attack("a-probe-leaves-no-process", slow=True)
def outlives_a_measured_run(folder: Path) -> None:
    """The same at the end of a run that was measured."""
    running, location = _started(folder, "forks-again-and-again", TRAINING)
    _let_go_on(running, folder / "pipe")
    running.wait(120)
    _assert_none_stays(location)
