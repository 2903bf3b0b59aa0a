"""Runs command lines of lintrain while an audit hook notes what touches a folder: `python -m tests.trapped.watched`.

Reads from stdin a JSON object: `folder`, and `commands`, each a list of arguments. Writes what was noted as JSON lines.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from types import CodeType
from typing import Any

from lintrain.installed.process import PROGRAM
from tests.support.peak import peak_memory

MOST_SECONDS = 60
"""For one command line, on a machine that does other things too."""

PROGRAMS = ("ruff", "git")
SHELL = "/bin/sh"
LIMITS = re.compile(r'(?:ulimit -[a-z] \d+; )+exec "\$@"')
CHANGES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.link": ((0, 2), (1, 3)),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.truncate": ((0, 1),),
}
"""Events that change a path: its place among the values, and that of the descriptor of its folder."""
PROCESSES = ("subprocess.Popen", "os.posix_spawn")
"""Since Python 3.13, `subprocess` starts most programs by `os.posix_spawn`, and each of the two has its event."""
STARTS = ("os.exec", "os.spawn", "os.system", "os.startfile", "socket.connect", "pty.spawn")
CACHES = (".lintrain_cache", ".cache", "lintrain/files", "lintrain/runs", "lintrain/verdicts")
"""Where the project keeps answers that it would like to be believed."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

notes = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this process and those that it forks


def note(*words: str) -> None:
    """Keep what happened, in whichever process."""
    os.write(notes.fileno(), json.dumps(words).encode() + b"\n")


def noted() -> list[list[str]]:
    """What has happened since this was asked the last time."""
    notes.seek(0)
    found = [json.loads(line) for line in notes.read().splitlines()]
    notes.seek(0)
    notes.truncate()
    return found


def is_inside(path: object, folder: str) -> bool:
    """Whether a path lies in the folder."""
    if not isinstance(path, str | bytes) or os.fsdecode(path).startswith("<"):
        return False
    return os.path.abspath(os.fsdecode(path)).startswith(folder + os.sep)  # noqa: PTH100 - links are not followed


def changes(event: str, values: tuple[Any, ...], folder: str) -> bool:
    """Whether an event changes something in the folder."""
    return any(is_inside(_whole(values, *where), folder) for where in CHANGES[event])


def _whole(values: tuple[Any, ...], path: int, descriptor: int) -> object:
    """A path of an event, with the folder that an open descriptor stands for."""
    around = values[descriptor] if descriptor < len(values) else -1
    if not isinstance(around, int) or around < 0:
        return values[path]
    return os.path.join(os.readlink(f"/proc/self/fd/{around}"), os.fsdecode(values[path]))  # noqa: PTH115, PTH118


def started(values: tuple[Any, ...]) -> str:
    """The program that a process becomes: the shell which sets the bounds of git does nothing else."""
    program, words = values[:2]
    if program == SHELL and LIMITS.fullmatch(words[2]) and words[3] == SHELL:
        return str(words[4])
    return str(program)


def reads_packages(values: tuple[Any, ...]) -> bool:
    """Whether a process is lintrain's own that reads packages: it starts in no folder of a project."""
    program, words = values[0], list(values[1])
    return program == sys.executable and words[1:4] == ["-P", "-c", PROGRAM]


def watch(event: str, values: tuple[Any, ...], folder: str) -> None:
    """Note an event that lintrain has no reason for."""
    if event == "exec" and isinstance(values[0], CodeType) and is_inside(values[0].co_filename, folder):
        note(event, values[0].co_filename)
    elif event == "import" and is_inside(values[1], folder):
        note(event, str(values[1]))
    elif event == "open" and is_inside(values[0], folder) and (values[2] or 0) & WRITING:
        note(event, str(values[0]))
    elif event == "open" and is_inside(values[0], folder) and any(f"/{each}/" in str(values[0]) for each in CACHES):
        note("kept", str(values[0]))
    elif event in CHANGES and changes(event, values, folder):
        note(event, *map(str, values))
    elif event in PROCESSES and reads_packages(values):
        return
    elif event in STARTS or (event in PROCESSES and os.path.basename(started(values)) not in PROGRAMS):  # noqa: PTH119
        note(event, str(values[0]))


class Said(io.StringIO):
    """What is said on stderr; a watch that waits gets one change, and then Ctrl-C."""

    waits = 0

    def write(self, text: str) -> int:
        """See `io.StringIO`."""
        written = super().write(text)
        if text.endswith("waiting for changes, Ctrl-C stops\n"):
            self.waits += 1
            if self.waits == 1:
                os.utime("train.py")
            else:
                signal.raise_signal(signal.SIGINT)
        return written


def carry_out(arguments: Sequence[str]) -> dict[str, object]:
    """Run one command line, and tell how it ended and what was noted."""
    from lintrain.cli import run

    noted()
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True, file=2)
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), Said()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"import torch\nprint(nowhere)\n"))
    failure = ""
    code: object = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = run(list(arguments))
    except BaseException as error:  # noqa: BLE001 - whatever ends a command is what the test is about
        if not isinstance(error, SystemExit):
            failure = repr(error)
        code = getattr(error, "code", None)
    faulthandler.cancel_dump_traceback_later()
    return {
        "arguments": list(arguments),
        "code": code,
        "failure": failure,
        "errors": errors.getvalue(),
        "noted": noted(),
        "peak": peak_memory(),
    }


def main() -> None:
    """Carry out what stdin asks for."""
    asked = json.load(sys.stdin)
    folder: str = asked["folder"]
    sys.addaudithook(lambda event, values: watch(event, values, folder))
    answers = sys.stdout
    for arguments in asked["commands"]:
        print(json.dumps(carry_out(arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
