"""Everything that this process asks the file system, written down with what it saw at the first time.

An answer rests on more than the files that were named: on a configuration that is not there, a module that would shadow
an import, a lock file, a folder of installed packages, a saved data set. Each of them is asked through `os` or `open`,
so they are heard there, and what is added tomorrow is heard too. Modules are imported past these functions and are no
part of it; `lintrain.cache.runs` adds our own.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, cast

from lintrain.cache.stamps import ABSENT, FILE, LINK, LISTED, is_fresh, written

CHILDREN = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})
"""Events that begin a process whose own looks nobody hears."""


Told = tuple[dict[tuple[bytes, bytes], bytes], bool]
"""What a process saw, and whether that is not all."""


class Watch:
    """The paths that were asked for with their stamps; `is_spoilt` where they do not tell all that was seen."""

    def __init__(self) -> None:
        self.seen: dict[tuple[bytes, bytes], bytes] = {}
        """The stamp of each path, under how it was looked at."""
        self.is_spoilt = False
        self._plain: dict[str, Callable[..., Any]] = {}
        self._stat = os.stat
        self._told = set[tuple[bytes, bytes]]()

    def __enter__(self) -> Watch:
        """Listen from now on."""
        self._put("stat", self._heard_stat)
        self._put("lstat", self._heard_link)
        self._put("readlink", self._heard_link)
        self._put("access", self._heard_stat)
        self._put("listdir", self._heard_list)
        self._put("scandir", self._heard_scan)
        _LISTENING.append(self)
        _listen_to_events()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        _LISTENING.remove(self)
        for name, plain in self._plain.items():
            setattr(os, name, plain)

    def add(self, told: Told) -> None:
        """What another process saw for the same answer; where the two saw different things, neither can be kept."""
        seen, is_spoilt = told
        self.is_spoilt |= is_spoilt or any(self.seen.setdefault(look, stamp) != stamp for look, stamp in seen.items())

    def take(self) -> Told:
        """What was seen since it was last taken: for a process that reads in another's stead."""
        told = {look: stamp for look, stamp in self.seen.items() if look not in self._told}, self.is_spoilt
        self._told.update(told[0])
        return told

    def note(self, path: object, kind: bytes = FILE) -> None:
        """Write down the state of a path as it is at the first look."""
        if isinstance(path, int) or _UNHEARD:
            return  # what was opened before, under its path
        try:
            known_as = os.path.join(os.getcwdb(), os.fsencode("." if path is None else cast("str", path)))
        except (TypeError, OSError):
            self.is_spoilt = True
            return
        if b"/__pycache__/" in known_as or known_as.startswith(b"/proc/"):
            return  # what Python makes of a module, which follows the module; what the kernel tells of processes
        if b"/." in known_as:
            known_as = known_as.replace(b"/./", b"/").removesuffix(b"/.")
        if (known_as, kind) not in self.seen:
            self.seen[known_as, kind] = self._stamp(known_as, kind)

    def _stamp(self, path: bytes, kind: bytes) -> bytes:
        try:
            state = self._stat(path, follow_symlinks=kind != LINK)
        except (OSError, ValueError):
            return ABSENT
        if kind != FILE or not stat.S_ISDIR(state.st_mode):
            self.is_spoilt |= is_fresh(state)
        return written(state, kind)

    def event(self, name: str, given: tuple[Any, ...]) -> None:
        """Hear of an opened file, or of a process that begins."""
        if name == "open" and given:
            self.note(given[0])
        elif (name in CHILDREN and not _TELLING) or (name == "subprocess.Popen" and not _is_ruff(given[0])):
            self.is_spoilt = True

    def _put(self, name: str, heard: Callable[..., Any]) -> None:
        plain = self._plain[name] = getattr(os, name)
        setattr(os, name, partial(heard, plain))

    def _heard_stat(self, plain: Callable[..., Any], path: object, *given: Any, **named: Any) -> Any:
        if named.get("dir_fd") is not None and not _UNHEARD:
            self.is_spoilt = True
        self.note(path, FILE if named.get("follow_symlinks", True) else LINK)
        return plain(path, *given, **named)

    def _heard_link(self, plain: Callable[..., Any], path: object, *given: Any, **named: Any) -> Any:
        answer = plain(path, *given, **named)
        if not isinstance(answer, os.stat_result) or stat.S_ISLNK(answer.st_mode):
            self.note(path, LINK)
        return answer

    def _heard_list(self, plain: Callable[..., Any], path: object = ".", *given: Any) -> Any:
        self.note(path, LISTED)
        return plain(path, *given)

    def _heard_scan(self, plain: Callable[..., Any], path: object = ".", *given: Any) -> Any:
        """The entries of a folder tell by themselves what links lead to, so that is written down with it."""
        if _UNHEARD:
            return plain(path, *given)
        self.note(path, LISTED)
        with plain(path, *given) as entries:
            for entry in entries:
                if entry.is_symlink():
                    self.note(entry.path)
        return plain(path, *given)


_LISTENING: list[Watch] = []
_HOOKS: list[object] = []
_TELLING: list[None] = []
_UNHEARD: list[None] = []


def _listen_to_events() -> None:
    """Put the one hook in place that a process needs: Python has no way to take one out again."""
    if not _HOOKS:
        _HOOKS.append(_on_event)
        sys.addaudithook(_on_event)


def _on_event(name: str, given: tuple[Any, ...]) -> None:
    for watch in _LISTENING:
        watch.event(name, given)


def _is_ruff(program: object) -> bool:
    return os.path.basename(os.fsdecode(program)).startswith("ruff") if isinstance(program, str | bytes) else False


def is_watched() -> bool:
    """Whether somebody listens: then a process that reads for this one has to tell what it saw."""
    return bool(_LISTENING)


def add_told(told: Told | None) -> None:
    """Give those who listen what another process saw."""
    for watch in _LISTENING:
        if told is None:
            watch.is_spoilt = True
        else:
            watch.add(told)


def watch_in_child() -> Watch:
    """A watch of its own for a process that reads for another, in place of those that a fork has brought along."""
    _LISTENING.clear()
    return Watch().__enter__()


@contextmanager
def unheard() -> Generator[None]:
    """What is looked at meanwhile is no part of an answer: lintrain's own files, and what it keeps."""
    _UNHEARD.append(None)
    try:
        yield
    finally:
        _UNHEARD.pop()


def tell_listed(folder: str) -> None:
    """Give those who listen a folder whose names an earlier run has read."""
    for watch in _LISTENING:
        watch.note(folder, LISTED)


@contextmanager
def telling_children() -> Generator[None]:
    """Processes that begin meanwhile tell what they see, and spoil nothing."""
    _TELLING.append(None)
    try:
        yield
    finally:
        _TELLING.pop()
