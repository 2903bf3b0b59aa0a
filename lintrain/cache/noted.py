"""The dependencies of a result: every path that was accessed for it, recorded by the code that accesses it.

    with noted_files() as noted:
        ...                          # reads a script, its modules, its settings files
    noted.read                       # the files whose content mattered, existing or not

A result that is computed once and used for many scripts is a dependency of each of them: `Memory` records it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")

EVERY_NAME = "*"


class Noted:
    """Absolute paths by kind of access.

    For `asked` only existence and kind matter, for `read` the content. `listed` are
    folders with the patterns (one a line) of the names in them that matter.
    """

    __slots__ = ("asked", "listed", "read")

    def __init__(self) -> None:
        self.asked = set[str]()
        self.read = set[str]()
        self.listed = set[tuple[str, str]]()

    def add(self, other: Noted) -> None:
        """Add the dependencies of another result."""
        self.asked |= other.asked
        self.read |= other.read
        self.listed |= other.listed

    def __iter__(self) -> Iterator[str]:
        """Every path, once or more."""
        yield from self.asked
        yield from self.read
        yield from (folder for folder, _ in self.listed)


_NOTED: ContextVar[Noted | None] = ContextVar("_NOTED", default=None)


@contextmanager
def noted_apart(accesses: Noted | None = None) -> Generator[Noted]:
    """What is accessed in the block, in addition to what was before; recordings around it get none of it."""
    noted = Noted() if accesses is None else accesses
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


@contextmanager
def noted_files() -> Generator[Noted]:
    """What is accessed in the block; it grows, and recordings around it get it at the end."""
    noted = Noted()
    try:
        with noted_apart(noted):
            yield noted
    finally:
        note_all(noted)


def note(path: str | os.PathLike[str]) -> None:
    """The result depends on the content of a file, or on its absence."""
    noted = _NOTED.get()
    if noted is not None:
        noted.read.add(os.path.abspath(path))


def note_all(accesses: Noted) -> None:
    """The result has all dependencies of another one."""
    noted = _NOTED.get()
    if noted is not None:
        noted.add(accesses)


def note_asked(path: str | os.PathLike[str]) -> None:
    """The result depends on whether a file or folder exists."""
    noted = _NOTED.get()
    if noted is not None and path not in noted.asked:
        noted.asked.add(os.path.abspath(path))


def note_listed(folder: str | os.PathLike[str], *patterns: str) -> None:
    """The result depends on the names in a folder that match one of the patterns; without a pattern on all names."""
    noted = _NOTED.get()
    if noted is not None:
        noted.listed.add((os.path.abspath(folder), "\n".join(patterns) or EVERY_NAME))


class Memory(Generic[Key, Answer]):
    """Results that are computed once; every user of one gets the dependencies of its computation."""

    def __init__(self) -> None:
        self._made: dict[Key, tuple[Answer, Noted]] = {}

    def get(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The result for this key, computed at the first request."""
        made = self._made.get(key)
        if made is None:
            with noted_files() as noted:
                made = self._made[key] = make(), noted
        else:
            note_all(made[1])
        return made[0]
