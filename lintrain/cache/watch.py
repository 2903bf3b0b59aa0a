"""Everything that this process requests from the file system, recorded with the state at the first access.

A report depends on more than the named files: on a missing configuration, a module that would shadow
an import, a lock file, a folder of installed packages, a saved data set. Each of them is accessed through `os` or
`open`, so it is recorded there, and so is what is added tomorrow. Imports of modules bypass these functions and are not
recorded; `lintrain.cache.runs` adds our own.
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

from lintrain.cache.whole_files import ABSENT, FILE, LINK, LISTED, is_fresh, written

CHILDREN = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"})
"""Events that start a process whose accesses are not recorded."""


Accesses = tuple[dict[tuple[bytes, bytes], bytes], bool]
"""What a process accessed, and whether that is not all."""


class Watch:
    """The accessed paths with their stamps; `is_spoilt` if some accesses could not be recorded."""

    def __init__(self) -> None:
        self.seen: dict[tuple[bytes, bytes], bytes] = {}
        """The stamp of each path, by kind of access."""
        self.is_spoilt = False
        self._plain: dict[str, Callable[..., Any]] = {}
        self._stat = os.stat
        self._taken = set[tuple[bytes, bytes]]()

    def __enter__(self) -> Watch:
        """Start recording."""
        self._put("stat", self._recorded_stat)
        self._put("lstat", self._recorded_link)
        self._put("readlink", self._recorded_link)
        self._put("access", self._recorded_stat)
        self._put("listdir", self._recorded_list)
        self._put("scandir", self._recorded_scan)
        # After `scandir` was replaced: it passes on the function that `os` has at this moment.
        _hand_to_glob()
        _ACTIVE.append(self)
        _install_hook()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop recording."""
        _ACTIVE.remove(self)
        for name, plain in self._plain.items():
            setattr(os, name, plain)
        _hand_to_glob()

    def add(self, accesses: Accesses) -> None:
        """Add what another process accessed for the same report; if they differ, nothing can be cached."""
        seen, is_spoilt = accesses
        self.is_spoilt |= is_spoilt or any(
            self.seen.setdefault(access, stamp) != stamp for access, stamp in seen.items()
        )

    def take(self) -> Accesses:
        """What was accessed since the last call: for a process that reads for another one."""
        accesses = {access: stamp for access, stamp in self.seen.items() if access not in self._taken}, self.is_spoilt
        self._taken.update(accesses[0])
        return accesses

    def note(self, path: object, kind: bytes = FILE) -> None:
        """Record the state of a path at the first access."""
        if isinstance(path, int) or _PAUSED:
            return  # what was opened before, under its path
        try:
            known_as = os.path.join(os.getcwdb(), os.fsencode("." if path is None else cast("str", path)))
        except (TypeError, OSError):
            self.is_spoilt = True
            return
        if b"/__pycache__/" in known_as or known_as.startswith(b"/proc/"):
            return  # a compiled module, which depends on its source; what the kernel reports about processes
        if b"/." in known_as:
            known_as = known_as.replace(b"/./", b"/").removesuffix(b"/.")
        # The first state counts: what changes later in the run must not look like what was read.
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
        """Record an opened file, or a process that starts."""
        if name == "open" and given:
            self.note(given[0])
        elif name == "subprocess.Popen" or (name in CHILDREN and not _REPORTING):
            # Since Python 3.13, `subprocess` starts most programs by `os.posix_spawn`, which has an event of its own.
            is_ruff = name in ("subprocess.Popen", "os.posix_spawn") and _is_ruff(given[0])
            self.is_spoilt |= not is_ruff

    def _put(self, name: str, recorded: Callable[..., Any]) -> None:
        plain = self._plain[name] = getattr(os, name)
        setattr(os, name, partial(recorded, plain))

    def _recorded_stat(self, plain: Callable[..., Any], path: object, *given: Any, **named: Any) -> Any:
        if named.get("dir_fd") is not None and not _PAUSED:
            self.is_spoilt = True
        self.note(path, FILE if named.get("follow_symlinks", True) else LINK)
        return plain(path, *given, **named)

    def _recorded_link(self, plain: Callable[..., Any], path: object, *given: Any, **named: Any) -> Any:
        answer = plain(path, *given, **named)
        # After the call, because `lstat` of a plain file depends on no link.
        if not isinstance(answer, os.stat_result) or stat.S_ISLNK(answer.st_mode):
            self.note(path, LINK)
        return answer

    def _recorded_list(self, plain: Callable[..., Any], path: object = ".", *given: Any) -> Any:
        self.note(path, LISTED)
        return plain(path, *given)

    def _recorded_scan(self, plain: Callable[..., Any], path: object = ".", *given: Any) -> Any:
        """The entries of a folder follow links by themselves, so their targets are recorded with it."""
        if _PAUSED:
            return plain(path, *given)
        self.note(path, LISTED)
        with plain(path, *given) as entries:
            for entry in entries:
                # An entry that is a link answers `is_dir` for its target, without another call of `os.stat`.
                if entry.is_symlink():
                    self.note(entry.path)
        return plain(path, *given)


_ACTIVE: list[Watch] = []
_HOOKS: list[object] = []
_REPORTING: list[None] = []
_PAUSED: list[None] = []


def _install_hook() -> None:
    """Install the one hook that a process needs: Python has no way to remove one."""
    if not _HOOKS:
        _HOOKS.append(_on_event)
        sys.addaudithook(_on_event)


def _on_event(name: str, given: tuple[Any, ...]) -> None:
    for watch in _ACTIVE or ():  # None while Python shuts down
        watch.event(name, given)


def _hand_to_glob() -> None:
    """Give `Path.glob` of Python 3.13 and later the present `os.scandir`: it keeps the one of its first import."""
    globber = getattr(sys.modules.get("glob"), "_StringGlobber", None)
    if globber is not None:
        globber.scandir = staticmethod(os.scandir)


def _is_ruff(program: object) -> bool:
    return os.path.basename(os.fsdecode(program)).startswith("ruff") if isinstance(program, str | bytes) else False


def is_watched() -> bool:
    """Whether a recording is active: then a process that reads for this one has to report its accesses."""
    return bool(_ACTIVE)


def add_accesses(accesses: Accesses | None) -> None:
    """Give the recordings what another process accessed."""
    for watch in _ACTIVE:
        if accesses is None:
            watch.is_spoilt = True
        else:
            watch.add(accesses)


def watch_in_child() -> Watch:
    """A new recording for a process that reads for another, in place of those inherited by the fork."""
    _ACTIVE.clear()
    return Watch().__enter__()


@contextmanager
def unrecorded() -> Generator[None]:
    """Accesses in the block are not part of a report: lintrain's own files, and the cache."""
    _PAUSED.append(None)
    try:
        yield
    finally:
        _PAUSED.pop()


def add_listed_folder(folder: str) -> None:
    """Give the recordings a folder whose names an earlier run has read."""
    for watch in _ACTIVE:
        watch.note(folder, LISTED)


@contextmanager
def children_report() -> Generator[None]:
    """Processes that start in the block report their accesses, and spoil nothing."""
    _REPORTING.append(None)
    try:
        yield
    finally:
        _REPORTING.pop()
