"""A process that outlives a probe which is killed: it ends what the probe had started, and removes its files."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lintrain.runtime.parent.processes import end_left
from lintrain.runtime.parent.remains import remove_folder, remove_shared_memory
from lintrain.runtime.parent.supervisor import LONGEST_END, relations
from lintrain.source.plain_files import read_start

STARTED = ".started"
"""Ends the name of the file beside the folder of a pass, out of the script's reach, that holds the number of the
script's process while it runs."""
SUPERVISED = ".supervisor"
"""The same for the script's supervisor, which ends when nothing of the script is left."""

WARDEN = """
import os, sys, time

began = time.time()

while os.read(0, 1):
    pass
sys.path.append(sys.argv[1])
from lintrain.runtime.parent.warden import end_what_is_left
end_what_is_left(sys.argv[2], began)
"""
"""Waits for the end of its input, which comes when no process holds the other end any more; until then it is idle."""


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
