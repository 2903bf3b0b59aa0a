"""How an event is signed, so that it differs from what the script's own code may write into the event file.

A process that may send gets a key in a file, which it reads and removes before the script's first line. From then on
only the state of a hash holds the key, from which it cannot be read. The script's code can still find and call the
function that signs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from hashlib import blake2b

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
        said = b"%b %d %d %b" % (self.name.encode(), GETPID(), next(self._lines), line)
        return signature(self._state, said) + b" " + said

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


def signature(state: blake2b, said: bytes) -> bytes:
    """What only the holder of a key can put before `said`; `state` is a hash with the key."""
    hashed = state.copy()
    hashed.update(b"line ")
    hashed.update(said)
    return hashed.hexdigest().encode()


def derived_key(state: blake2b, number: int) -> bytes:
    """The key of this number that comes from another one; `state` is a hash with that one."""
    hashed = state.copy()
    hashed.update(b"key %d" % number)
    return hashed.digest()


def leave_key(folder: str, name: str, key: bytes, prefix: str = PREFIX) -> None:
    """Write a file with a key; the process for which it is meant removes it."""
    path = os.path.join(folder, prefix + name)
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
