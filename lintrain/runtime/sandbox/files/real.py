"""The functions of `os` as they are without the guard, for the guard's own use."""

from __future__ import annotations

import io
import os
import shutil
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
