"""Writing one file: its own content only, whatever links lead to it or share it.

A file whose other names (hard links) all lie in its project is written in place. One that has a name elsewhere is
replaced by a new file, so that what goes by the other name stays as it is. Folders on the way are opened one by one
without following a link, so that none can be exchanged between the look and the writing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from lintrain.source.bounds import project_around
from lintrain.source.plain_files import read_start

MOST_SEARCHED = 200_000
"""Entries of a project among which other names of a file are looked for; beyond that they count as elsewhere."""

CAN_OPEN_FOLDERS = {os.open, os.unlink, os.stat} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


def put_file(path: str, content: bytes) -> None:
    """Write a file, its links and rights as they were; on a full disk it keeps what it held. Raises OSError."""
    if not CAN_OPEN_FOLDERS:
        _put_by_path(Path(path), content)
        return
    real = Path(os.path.realpath(path))
    with _opened(real.parent) as folder:
        try:
            state = os.stat(real.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            _create(folder, real.name, content, 0o666)
            return
        if not stat.S_ISREG(state.st_mode):
            read_start(real, 0)  # says what it is
            raise OSError(errno.EINVAL, "not a plain file")
        if state.st_nlink > 1 and not _has_all_names_in_project(real, state):
            _replace(folder, real.name, content)
        else:
            _overwrite_open(os.open(real.name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder), content)


def has_other_names(file: Path) -> bool:
    """Whether a file is there, a plain one, and goes by several names."""
    try:
        state = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_nlink > 1


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    """A descriptor of a folder that is reached over no link; raises OSError."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(folder.anchor, flags)
    try:
        for part in folder.parts[1:]:
            inner = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _create(folder: int, name: str, content: bytes, mode: int) -> None:
    """A new file; nothing of it stays where it cannot be written whole."""
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    try:
        with os.fdopen(made, "wb") as file:
            file.write(content)
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise


def _replace(folder: int, name: str, content: bytes) -> None:
    """Put a new file in the place of one, with its owner, rights and attributes; the other names keep the old one."""
    new = f".lintrain-{os.getpid()}.new"
    _create(folder, new, content, 0o600)
    try:
        before = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        after = os.open(new, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            _copy_rights(before, after)
        finally:
            os.close(before)
            os.close(after)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(new, dir_fd=folder)
        raise


def _copy_rights(before: int, after: int) -> None:
    """Give one file the owner, rights and attributes of another; raises OSError where the owner cannot be kept."""
    old, new = os.fstat(before), os.fstat(after)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        os.fchown(after, old.st_uid, old.st_gid)
    os.fchmod(after, stat.S_IMODE(old.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(before):
                os.setxattr(after, name, os.getxattr(before, name))


def _has_all_names_in_project(file: Path, state: os.stat_result) -> bool:
    around = project_around(os.fspath(file.parent)) or os.fspath(file.parent)
    names = 0
    for count, entry in enumerate(_entries_below(around)):
        if count > MOST_SEARCHED:
            return False
        names += entry.inode() == state.st_ino and entry.stat(follow_symlinks=False).st_dev == state.st_dev
    return names >= state.st_nlink


def _entries_below(folder: str) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry


def _put_by_path(path: Path, content: bytes) -> None:
    if not path.exists():
        path.write_bytes(content)
        return
    read_start(path, 0)  # a pipe would be waited for
    _overwrite_open(os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)), content)


def _overwrite_open(descriptor: int, content: bytes) -> None:
    """Other content for an open file; where there is no room for it, the old one again. Raises OSError."""
    with FileIO(descriptor, "r+b") as file:
        before = file.readall()
        try:
            _overwrite(file, content)
        except OSError:
            _overwrite(file, before)
            raise


def _overwrite(file: FileIO, content: bytes) -> None:
    """Other content for a file, cut to its length at the end: nothing is lost before there was room for all of it."""
    file.seek(0)
    left = memoryview(content)
    while left:
        left = left[file.write(left) or 0 :]
    file.truncate()
