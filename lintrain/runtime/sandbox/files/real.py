"""The functions of `os` as they are without the guard, for the guard's own use.

Which places a script may write to under a probe: what is temporary, devices, and what the libraries download.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable
from typing import Any

open_file = io.open
access, chdir, chmod, getcwd, lstat, mkdir = os.access, os.chdir, os.chmod, os.getcwd, os.lstat, os.mkdir
link: Any = getattr(os, "link", None)  # Any: not on every platform
listdir, readlink, rename, rmdir, scandir, stat = os.listdir, os.readlink, os.rename, os.rmdir, os.scandir, os.stat
symlink, unlink = os.symlink, os.unlink


def exists(path: str) -> bool:
    """Whether there is anything by this name, a link to nothing included."""
    try:
        lstat(path)
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: str) -> bool:
    """Whether this is a folder, or a link to one."""
    try:
        found = stat(path)
    except (OSError, ValueError):
        return False
    return found.st_mode & 0o170000 == 0o040000


def is_link(path: str) -> bool:
    """Whether this is a link, to whatever."""
    try:
        readlink(path)
    except (OSError, ValueError):
        return False
    return True


def make_folders(path: str) -> None:
    """Make a folder and those above it."""
    if is_folder(path):
        return
    make_folders(os.path.dirname(path))
    try:
        mkdir(path)
    except FileExistsError:
        return  # another process of the script was quicker


def copy(source: str, target: str) -> None:
    """Copy the bytes and the mode of a file."""
    with open_file(source, "rb") as read, open_file(target, "wb") as write:
        shutil.copyfileobj(read, write, 2**20)
    chmod(target, stat(source).st_mode & 0o7777 | 0o200)


DEVICES = ("/dev", "/proc", "/sys")
LOCAL_BUILDERS = frozenset(
    {"arrow", "audiofolder", "csv", "generator", "imagefolder", "json", "pandas", "parquet", "spark", "sql", "text"}
)
"""Folders in the cache of `datasets` that hold data made from the user's own files, not from the hub's."""


class Free:
    """Places that the guard leaves alone: the temporary folder, devices, and the given folders of downloads."""

    def __init__(self, temporary: str, downloads: Iterable[str]) -> None:
        self.folders = tuple(dict.fromkeys((*_both(temporary), *(one for path in downloads for one in _both(path)))))
        self._datasets = tuple(one + os.sep for one in self.folders if os.path.basename(one) == "datasets")
        self._prefixes = tuple(folder + os.sep for folder in (*self.folders, *DEVICES))
        self._names = frozenset((*self.folders, *DEVICES))
        self._layer = os.path.join(os.path.realpath(temporary), "layer") + os.sep

    def has(self, key: str) -> bool:
        """Whether the guard leaves this path alone."""
        if not key.startswith(self._prefixes):
            return key in self._names
        # The cache of `datasets` is free for downloads, which a second run needs, but not for what is computed from
        # the user's own files: a shortened `map` must not be found there by the user's next real run.
        return not any(key.startswith(folder) and _is_made_here(key[len(folder) :]) for folder in self._datasets)


def _both(path: str) -> tuple[str, str]:
    absolute = os.path.abspath(os.path.expanduser(path))
    return absolute, os.path.realpath(absolute)


def _is_made_here(inside: str) -> bool:
    """Results of `map`, and data made from local files, in the cache of `datasets`."""
    first, name = inside.partition(os.sep)[0], os.path.basename(inside)
    is_lock = first.endswith(".lock") and any(f"_{builder}_" in first for builder in LOCAL_BUILDERS)
    return is_lock or first in LOCAL_BUILDERS or name.startswith(("cache-", "tmp"))
