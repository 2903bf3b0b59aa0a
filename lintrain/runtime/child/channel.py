"""Events from the probed process to its parent: one JSON line each, written at once, so that a crash loses none.

How an event is signed, so that it differs from what the script's own code may write into the event file.

A process that may send gets a key in a file, which it reads and removes before the script's first line. From then on
only the state of a hash holds the key, from which it cannot be read. The script's code can still find and call the
function that signs.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, TypeVar

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

WHERE = "where.txt"
"""In the same folder: what Python writes when it is asked which line runs."""

ASKS = int(signal.SIGRTMIN) + 11 if hasattr(signal, "SIGRTMIN") else 0
"""The signal for it, which scripts and libraries leave alone; 0 on macOS and Windows, which lack it."""

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
        self._descriptor = opened(path)
        self._file = _identity(self._descriptor)
        self._held: list[bytes] | None = None

    def send(self, event: str, **values: Any) -> None:  # Any: whatever JSON and dataclasses hold
        """Append one event; dataclasses among the values become dictionaries."""
        # One line without a valid signature makes the parent reject all of them.
        if self.signer is None:
            return
        line = self.signer.signed(_line(event, values).encode()) + b"\n"
        # Signed before it is held: the numbers of the lines then have the order of the calls, muted or not.
        if self._held is not None:
            self._held.append(line)
        elif not self.is_muted:
            self._write(line)

    def _write(self, content: bytes) -> None:
        # A signal or a full pipe may end `write` after a part of the line, and half a line of JSON is none.
        left = memoryview(content)
        try:
            while left:
                left = left[WRITE(self._own_descriptor(), left) :]
        except OSError:
            # Not an exception: the script's `except OSError:` would swallow it and train on, unmeasured.
            EXIT(NO_ROOM)

    def _own_descriptor(self) -> int:
        """The descriptor of our file, opened again if the script closed it: another file may have its number."""
        # Daemons call `os.closerange(3, 1024)`. The next `open` of the script then gets our number, and its
        # checkpoint would get our JSON.
        if _identity(self._descriptor) != self._file:
            self._descriptor = opened(self._path)
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


Item = TypeVar("Item")


class Reported(list[Item]):
    """A list whose items are sent at once: a script that runs out of time sends no run that would hold them."""

    def __init__(self, event: str, channel: Channel) -> None:
        super().__init__()
        self._event = event
        self._channel = channel

    def append(self, item: Item, /) -> None:
        """Add one, and send it."""
        super().append(item)
        # Not where one is changed later: what a checkpoint is loaded as says the list of the run, if there is one.
        self._channel.send(self._event, item=item)


def opened(path: str) -> int:
    """A descriptor of the file for appending, with a number that no file of the script gets."""
    # O_APPEND: several processes write to the file, and each line has to be whole. O_NOFOLLOW: the script may have
    # put a link there.
    low = OPEN(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    if fcntl is None:  # pyright: ignore[reportUnnecessaryComparison]
        return low
    try:
        # A script that compares or counts descriptors sees the same low numbers as without a probe.
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


KEY_BYTES = 32
PREFIX = "key-"
"""Of the files that hold one key each, in the folder of a pass; the name of the key follows."""
MEANT = "meant-"
"""The same of a key for a program that another one starts, which learns the name from its environment."""
GETPID = os.getpid
"""As it is before the script, which may put something else in its place."""


class Signer:
    """Signs lines with one key, which has a `name`."""

    __slots__ = ("_derived", "_lines", "_state", "name")

    def __init__(self, name: str, key: bytes) -> None:
        self.name = name
        self._state = blake2b(key=key, digest_size=KEY_BYTES)
        self._lines = itertools.count(1)
        self._derived = itertools.count(1)

    def signed(self, line: bytes) -> bytes:
        """The line behind its signature, the name of the key, this process and the number of the line."""
        # With the process and the number of the line, a copy of a signed line is no second event: the
        # parent knows the pair.
        content = b"%b %d %d %b" % (self.name.encode(), GETPID(), next(self._lines), line)
        return signature(self._state, content) + b" " + content

    def leave_keys(self, folder: str, count: int) -> None:
        """Write a key for each process that this one starts, or becomes, and that may send as well."""
        for _ in range(count):
            leave_key(folder, *self._next_key())

    def leave_named_keys(self, folder: str, count: int) -> list[str]:
        """Write keys that only those processes take which ask for one by its name, and give the names."""
        keys = [self._next_key() for _ in range(count)]
        for name, key in keys:
            leave_key(folder, name, key, MEANT)
        return [name for name, _ in keys]

    def _next_key(self) -> tuple[str, bytes]:
        number = next(self._derived)
        return f"{self.name}.{number}", derived_key(self._state, number)


def signature(state: blake2b, content: bytes) -> bytes:
    """What only the holder of a key can put before `content`; `state` is a hash with the key."""
    # A copy, since `update` cannot be undone: each signature starts from the state that holds nothing but the key. The
    # words `line` and `key` keep a signed line from being a derived key.
    hashed = state.copy()
    hashed.update(b"line ")
    hashed.update(content)
    return hashed.hexdigest().encode()


def derived_key(state: blake2b, number: int) -> bytes:
    """The key of this number that comes from another one; `state` is a hash with that one."""
    hashed = state.copy()
    hashed.update(b"key %d" % number)
    return hashed.digest()


def leave_key(folder: str, name: str, key: bytes, prefix: str = PREFIX) -> None:
    """Write a file with a key; the process for which it is meant removes it."""
    path = os.path.join(folder, prefix + name)
    # Exclusive: a file that the script put there first, to read the key from it, is an error and no place for one.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, key)
    finally:
        os.close(descriptor)


def take_key(folder: str) -> Signer | None:
    """Remove a file with a key and sign with it; None if there is none for this process."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(PREFIX) and (signer := _taken(folder, name, PREFIX)):
            return signer
    return None


def take_named_key(folder: str, names: Iterable[str]) -> Signer | None:
    """Remove the first key of these names that no other process has taken, and sign with it."""
    for name in names:
        if os.path.basename(name) == name and (signer := _taken(folder, MEANT + name, MEANT)):
            return signer
    return None


def _taken(folder: str, name: str, prefix: str) -> Signer | None:
    taken = os.path.join(folder, f"taken-{GETPID()}")
    try:
        os.rename(os.path.join(folder, name), taken)  # of several processes that see the file one gets it
    except OSError:
        return None
    with open(taken, "rb") as opened:
        key = opened.read(KEY_BYTES)
    os.unlink(taken)
    return Signer(name[len(prefix) :], key)
