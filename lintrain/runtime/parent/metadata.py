"""Which files a probed script may change the mode, owner, times and attributes of: those of the probe alone.

The kernel asks about each such call of the script and of all that it starts (`child.network.kernel`). One that is about
another file is answered as if it had succeeded, and named in the report: the script goes on, the file stays as it is.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from lintrain.runtime.sandbox.files.real import Free
from lintrain.runtime.sandbox.network.connecting import BELOW, BY_DESCRIPTOR, BY_LINK, NO_FLAGS, OF_MACHINE

MOST_NAMED = 1_000
LONGEST_PATH = 4_096
MOST_LINKS = 40
HERE = -100
"""The descriptor that stands for the working folder (`AT_FDCWD`)."""
NO_FOLLOW = 0x100
FREE = ("/dev/shm/", "/proc/")
Read = Callable[[int, int, int], bytes]
"""Reads the memory of a process: its number, an address, a size."""


class Metadata:
    """Judges calls that change metadata; `unchanged` names the files that were not changed."""

    def __init__(self, temporary: str, downloads: Sequence[str], read: Read) -> None:
        self.unchanged: list[str] = []
        self._free = Free(temporary, downloads)
        self._read = read
        self._calls = OF_MACHINE.get(os.uname().machine, {}) if hasattr(os, "uname") else {}

    def asks(self, call: int) -> bool:
        """Whether a system call is one of these."""
        return call in self._calls

    def judged(self, thread: int, process: int, call: int, arguments: Sequence[int]) -> tuple[int, bool]:
        """The error of a call (0: none), and whether the kernel carries it out."""
        changes, kind, flags = self._calls[call]
        path = self._target(thread, process, kind, arguments, arguments[flags] if flags != NO_FLAGS else 0)
        # A missing file lets the kernel give its own error.
        if path is None or path.startswith(FREE) or self._free.has(path) or not _is_there(path):
            return 0, True
        if len(self.unchanged) < MOST_NAMED:
            self.unchanged.append(f"the {changes} of {path}")
        # Answered as a success without being executed: libraries copy modes and times (`shutil.copy2`), and an
        # error would end a script that does nothing wrong.
        return 0, False

    def _target(self, thread: int, process: int, kind: str, arguments: Sequence[int], flags: int) -> str | None:
        """The absolute path of the file that is meant; None for one without a name, which no other process sees."""
        if kind == BY_DESCRIPTOR:
            return _opened(process, arguments[0])
        address = arguments[1] if kind == BELOW else arguments[0]
        path = os.fsdecode(self._text(process, address)) if address else ""
        around = _signed(arguments[0]) if kind == BELOW else HERE
        if not path and kind == BELOW and around != HERE:
            return _opened(process, around)
        folder = str(Path(f"/proc/{thread}/cwd").readlink()) if around == HERE else _opened(process, around)
        follows = kind != BY_LINK and not flags & NO_FOLLOW
        return resolved(posixpath.join(folder or "/", path), thread, process, follows=follows)

    def _text(self, process: int, address: int) -> bytes:
        """The bytes up to the first zero, read page by page: the next page may not be there."""
        found = b""
        while b"\0" not in found and len(found) < LONGEST_PATH:
            at = address + len(found)
            piece = self._read(process, at, 4096 - at % 4096)
            if not piece:
                break
            found += piece
        return found.partition(b"\0")[0]


def _signed(argument: int) -> int:
    return (argument & 0x7FFFFFFF) - (argument & 0x80000000)


def _opened(process: int, descriptor: int) -> str | None:
    """The path of an open file; None for a file without a path, and for objects that are not files."""
    link = Path(f"/proc/{process}/fd/{descriptor & 0xFFFFFFFF}")
    path, state = str(link.readlink()), link.stat()
    is_nameless = stat.S_ISREG(state.st_mode) and state.st_nlink == 0
    return path if path.startswith("/") and not is_nameless else None


def resolved(path: str, thread: int, process: int, *, follows: bool) -> str:
    """A path without links, as the process would follow it: `/proc/self` is its own, not that of this one."""
    own = {"/proc/self": f"/proc/{process}", "/proc/thread-self": f"/proc/{process}/task/{thread}"}
    left = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    at, links = "", 0
    while left:
        part = left.pop()
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        inner = f"{at}/{part}"
        target = own.get(inner) or (_link(inner) if left or follows else None)
        links += target is not None
        if target is None or links > MOST_LINKS:
            at = inner
            continue
        at = "" if target.startswith("/") else at
        left += [each for each in reversed(target.split("/")) if each not in {"", "."}]
    return at or "/"


def _is_there(path: str) -> bool:
    try:
        Path(path).lstat()
    except (OSError, ValueError):
        return False
    return True


def _link(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:
        return None


def notes_of_unchanged(unchanged: Sequence[str], most: int = 12) -> tuple[str, ...]:
    """Lines for the report."""
    files = list(dict.fromkeys(unchanged))
    lines = [f"not changed: {what}" for what in files[:most]]
    return (*lines, f"not changed: {len(files) - most} more") if len(files) > most else tuple(lines)
