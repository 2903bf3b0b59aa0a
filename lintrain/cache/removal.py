"""Removing the cache: only files with our names and first bytes, in open folders.

A folder is opened once, without following a link, and everything after that happens in the open folder.

An open folder: operations stay inside it, even if its path is replaced by another folder in the meantime.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import NamedTuple

from lintrain.cache.folder import OWN, is_private
from lintrain.cache.whole_files import HEADS, IGNORED, MOST_BYTES, NO_LINKS, TAG, TAGGED

OLDEST = 30 * 24 * 3600
"""Seconds after which a file that was not written again is removed."""

HALF_WRITTEN = 3600
"""Seconds after which a temporary file that was never renamed is removed."""

ENDINGS = {"answers": "", "files": "", "packages": "", "verdicts": ".json", "pages": ".md"}
"""How the names of the files in each folder end."""

STORES = {store: (ending, HEADS[store]) for store, ending in ENDINGS.items()}
OLD_STORES = {**STORES, "verdicts": (".json", b'{"schema": 1, "lintrain": "')}
"""The folders of earlier versions, directly in the user's cache folder, and how their files begin."""

DIGITS = "0123456789abcdef"


class Removed(NamedTuple):
    """How many files were removed, and what was left because it is not ours."""

    files: int
    left: tuple[str, ...]


def prune(store: str, most: int) -> None:
    """Remove old files, files beyond the limit, and partial files of runs that were killed."""
    kind = os.path.basename(store)
    with Folder(os.path.dirname(store)) as own, Folder(kind, own) as folder:
        if not (own.is_private() and folder.is_private()):
            return
        for name in _spare(folder, *STORES[kind], most):
            folder.remove(name)


def _spare(folder: Folder, ending: str, head: bytes, most: int) -> Iterator[str]:
    """The files of ours to remove."""
    states = ((folder.state(name), name) for name in folder.names() if is_name_of_ours(name, ending))
    # The newest first: limits by number and by size then leave the oldest files out.
    files = sorted(((state.st_mtime, state.st_size, name) for state, name in states), reverse=True)
    now, held = time.time(), 0
    for at, (changed, size, name) in enumerate(files):
        held += size
        is_half_written = name.endswith(".new") and changed < now - HALF_WRITTEN
        is_spare = at >= most or held > MOST_BYTES or changed < now - OLDEST or is_half_written
        if is_spare and begins_as_ours(folder, name, head):
            yield name


def remove_all(named: str) -> Removed:
    """Remove the whole cache below a chosen folder; raises OSError if something cannot be removed."""
    try:
        own = Folder(os.path.join(named, OWN))
    except (FileNotFoundError, NotADirectoryError):
        return Removed(0, ())
    with own:
        # A folder that others may write into, or without our mark, may hold anything: nothing in it is removed.
        if not own.is_private() or _content(own, TAG, len(TAGGED) + 1) != TAGGED:
            return Removed(0, (OWN,))
        removed = _remove_stores(own, STORES)
        name, content = IGNORED
        if {*own.names()} <= {TAG, name} and _content(own, name, len(content) + 1) in (content, b""):
            own.remove(name)
            own.remove(TAG)
    if not removed.left:
        with Folder(named) as around:
            around.remove_folder(OWN)
    return removed


def remove_old(named: str) -> Removed:
    """Remove what earlier versions wrote directly into the user's cache folder."""
    try:
        folder = Folder(named)
    except OSError:
        return Removed(0, ())
    with folder:
        return _remove_stores(folder, OLD_STORES) if folder.is_private() else Removed(0, ())


def _remove_stores(own: Folder, stores: Mapping[str, tuple[str, bytes]]) -> Removed:
    files, left = 0, list[str]()
    for store, (ending, head) in stores.items():
        try:
            opened = Folder(store, own)
        except FileNotFoundError:
            continue
        except OSError:  # a link, or a file
            left.append(store)
            continue
        with opened as folder:
            for name in folder.names() if folder.is_private() else ():
                if is_name_of_ours(name, ending, any_stem=ending == ".md") and begins_as_ours(folder, name, head):
                    folder.remove(name)
                    files += 1
            left += [f"{store}/{name}" for name in folder.names()]
        own.remove_folder(store)
    return Removed(files, tuple(left))


def is_name_of_ours(name: str, ending: str, *, any_stem: bool = False) -> bool:
    """Whether a cached file may have this name, complete or partial."""
    if name.endswith(".new"):
        name, _, process = name.removesuffix(".new").rpartition(".")
        if not process.isdecimal():
            return False
    stem = name.removesuffix(ending)
    return name.endswith(ending) and (any_stem or (len(stem) == len(DIGITS) * 2 and not stem.strip(DIGITS)))


def begins_as_ours(folder: Folder, name: str, head: bytes) -> bool:
    """Whether a file begins like cached files; a partial one may be shorter."""
    start = _content(folder, name, len(head))
    return start == head or (name.endswith(".new") and start is not None and head.startswith(start))


def _content(folder: Folder, name: str, length: int) -> bytes | None:
    """The first bytes of a regular file of this user; None for anything else."""
    try:
        return folder.start(name, length)
    except OSError:
        return None


HAS_DESCRIPTORS = os.unlink in os.supports_dir_fd and os.listdir in os.supports_fd


class Folder:
    """A folder, opened without following a link. Windows cannot open folders, so the path is used there."""

    def __init__(self, path: str, within: Folder | None = None) -> None:
        self._path: str = os.path.join(within._path, path) if within else path
        self._descriptor: int | None = None
        if HAS_DESCRIPTORS:
            flags = os.O_RDONLY | os.O_DIRECTORY | NO_LINKS
            self._descriptor = os.open(path, flags, dir_fd=within._descriptor if within else None)
        elif not stat.S_ISDIR(os.lstat(self._path).st_mode):  # a link, too; a missing folder raises as `os.open` does
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)

    def __enter__(self) -> Folder:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def is_private(self) -> bool:
        """Whether it belongs to this user, and only this user may write into it."""
        return is_private(os.lstat(self._path) if self._descriptor is None else os.fstat(self._descriptor))

    def names(self) -> list[str]:
        """Its entries."""
        return os.listdir(self._path if self._descriptor is None else self._descriptor)

    def state(self, name: str) -> os.stat_result:
        """The state of an entry; of a link its own."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def start(self, name: str, length: int) -> bytes:
        """The first bytes of a regular file; raises OSError for anything else."""
        if not stat.S_ISREG(self.state(name).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        with open(os.open(self._at(name), os.O_RDONLY | NO_LINKS, dir_fd=self._descriptor), "rb") as file:
            return file.read(length)

    def remove(self, name: str) -> None:
        """Remove a file; a file that another run has removed is not an error."""
        try:
            os.unlink(self._at(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            return

    def remove_folder(self, name: str) -> None:
        """Remove a folder, if nothing is left in it."""
        try:
            os.rmdir(self._at(name), dir_fd=self._descriptor)
        except OSError:
            return

    def _at(self, name: str) -> str:
        return os.path.join(self._path, name) if self._descriptor is None else name
