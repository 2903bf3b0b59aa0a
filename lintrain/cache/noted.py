"""What an answer about a file rests on: every path that was looked at for it, noted by whoever looks.

    with noted_files() as noted:
        ...                          # reads a script, its modules, the settings beside it
    noted.read                       # the files whose content had a say, there or not

An answer that is made once and given to many scripts is noted anew for each of them: `Memory` sees to that.
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
    """Absolute paths by how they were looked at.

    Of `asked` it only matters whether they are there and whether as a folder, of `read` what they hold. `listed` are
    folders with the patterns (one a line) of the names in them that matter.
    """

    __slots__ = ("asked", "listed", "read")

    def __init__(self) -> None:
        self.asked = set[str]()
        self.read = set[str]()
        self.listed = set[tuple[str, str]]()

    def add(self, other: Noted) -> None:
        """Take over what another answer rests on."""
        self.asked |= other.asked
        self.read |= other.read
        self.listed |= other.listed

    def __iter__(self) -> Iterator[str]:
        """Every path once or more."""
        yield from self.asked
        yield from self.read
        yield from (folder for folder, _ in self.listed)


_NOTED: ContextVar[Noted | None] = ContextVar("_NOTED", default=None)


@contextmanager
def noted_apart(looks: Noted | None = None) -> Generator[Noted]:
    """What is looked at meanwhile, with what was before; those who note around it learn of none of it."""
    noted = Noted() if looks is None else looks
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


@contextmanager
def noted_files() -> Generator[Noted]:
    """What is looked at meanwhile; it grows, and those who note around it learn of it at the end."""
    noted = Noted()
    try:
        with noted_apart(noted):
            yield noted
    finally:
        note_all(noted)


def note(path: str | os.PathLike[str]) -> None:
    """An answer depends on what a file holds, or on its not being there."""
    noted = _NOTED.get()
    if noted is not None:
        noted.read.add(os.path.abspath(path))


def note_all(looks: Noted) -> None:
    """An answer rests on all that another one rests on."""
    noted = _NOTED.get()
    if noted is not None:
        noted.add(looks)


def note_asked(path: str | os.PathLike[str]) -> None:
    """An answer depends on whether a file or folder is there."""
    noted = _NOTED.get()
    if noted is not None and path not in noted.asked:
        noted.asked.add(os.path.abspath(path))


def note_listed(folder: str | os.PathLike[str], *patterns: str) -> None:
    """An answer depends on the names in a folder that match one of the patterns; without one on all of them."""
    noted = _NOTED.get()
    if noted is not None:
        noted.listed.add((os.path.abspath(folder), "\n".join(patterns) or EVERY_NAME))


class Memory(Generic[Key, Answer]):
    """Answers that are made once; whoever is given one rests on what was looked at when it was made."""

    def __init__(self) -> None:
        self._made: dict[Key, tuple[Answer, Noted]] = {}

    def get(self, key: Key, make: Callable[[], Answer]) -> Answer:
        """The answer to this question, made now where it is asked for the first time."""
        made = self._made.get(key)
        if made is None:
            with noted_files() as noted:
                made = self._made[key] = make(), noted
        else:
            note_all(made[1])
        return made[0]
