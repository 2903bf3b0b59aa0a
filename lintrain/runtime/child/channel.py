"""Events from the probed process to its parent: one JSON line each, written at once, so that a crash loses none."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lintrain.runtime.child.signing import Signer

DUMPS, WRITE, EXIT = json.dumps, os.write, os._exit
OPEN, FSTAT, CLOSE = os.open, os.fstat, os.close
"""As they are before the script, which may put something else in their place."""

try:
    import fcntl
except ImportError:  # Windows, where a script's files get no numbers of ours
    fcntl = None  # type: ignore[assignment]

EVENTS = "events.jsonl"
"""In the folder of a pass: the file that this appends to."""

HIGH = 500
"""Descriptors from here on are not those that a script's own files get."""

NO_ROOM = 74
"""Exit status of a process whose events cannot be written (EX_IOERR): its measurements would be lost."""


class Channel:
    """The writing end; several processes of one script may append to the same file. One that `is_muted` does not.

    Without a `signer` events would not be trusted, and none is written.
    """

    is_muted = False
    signer: Signer | None = None

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _opened(path)
        self._file = _identity(self._descriptor)
        self._held: list[bytes] | None = None

    def send(self, event: str, **values: Any) -> None:  # Any: whatever JSON and dataclasses hold
        """Append one event; dataclasses among the values become dictionaries."""
        if self.signer is None:
            return
        line = self.signer.signed(_line(event, values).encode()) + b"\n"
        if self._held is not None:
            self._held.append(line)
        elif not self.is_muted:
            self._write(line)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        try:
            while left:
                left = left[WRITE(self._own_descriptor(), left) :]
        except OSError:
            EXIT(NO_ROOM)

    def _own_descriptor(self) -> int:
        """The descriptor of our file, opened again if the script closed it: another file may have its number."""
        if _identity(self._descriptor) != self._file:
            self._descriptor = _opened(self._path)
            if _identity(self._descriptor) != self._file:
                CLOSE(self._descriptor)
                raise OSError("the event file was replaced")
        return self._descriptor

    @contextmanager
    def at_once(self) -> Generator[None]:
        """Events within are written together, muted or not: no event of another process comes between."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._write(b"".join(held))


class MemoryChannel(Channel):
    """The same events, kept in a list: for a run that is measured inside of the process that asks for it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def send(self, event: str, **values: Any) -> None:  # Any: as above
        """Append one event as its reader would get it from a file."""
        self.events.append(json.loads(_line(event, values)))


def _opened(path: str) -> int:
    """A descriptor of the file for appending, with a number that no file of the script gets."""
    # O_APPEND: several processes write to the file, and each line has to be whole. O_NOFOLLOW: the script may have
    # put a link there.
    low = OPEN(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    if fcntl is None:  # pyright: ignore[reportUnnecessaryComparison]
        return low
    try:
        high = int(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH))
    except OSError:  # fewer descriptors are allowed
        return low
    CLOSE(low)
    return high


def _identity(descriptor: int) -> tuple[int, int] | None:
    """The identity of a file; None for a descriptor that is closed."""
    try:
        state = FSTAT(descriptor)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _line(event: str, values: dict[str, Any]) -> str:
    return DUMPS({"event": event, **values}, default=_plain)


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
