"""The stamp of a path: short enough to be taken of thousands of files at every start."""

from __future__ import annotations

import os
import stat
import time

ABSENT = b"-"
FOLDER = b"d"
"""A folder whose existence was checked: its content does not matter."""
FILE = b"f"
OTHER = b"o"
"""A device or a pipe: what is read from it cannot be cached."""
LISTED = b"l"
"""A folder whose names were read: they are unchanged while its modification time is."""
LINK = b"k"
"""A symbolic link itself; its target is recorded under the same path."""

SECOND = 1_000_000_000
NOW = time.time_ns

FRESH = SECOND // 10
"""Nanoseconds within which a second change may leave the same time: file systems tick ten times faster."""


def stamp_of(path: bytes, kind: bytes) -> bytes:
    """The current state of a path, as a stamp of the same kind."""
    try:
        state = os.lstat(path) if kind == LINK else os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return written(state, kind)


def written(state: os.stat_result, kind: bytes = FILE) -> bytes:
    """A state in a few bytes, its kind first: two equal ones mean the same file with the same content."""
    if kind in (LISTED, LINK):
        return b"%b%d %d %d %d" % (kind, state.st_mtime_ns, state.st_ino, state.st_dev, state.st_mode)
    if stat.S_ISDIR(state.st_mode):
        return FOLDER
    if not stat.S_ISREG(state.st_mode):
        return OTHER
    return b"f%d %d %d %d %d" % (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev)


def is_fresh(state: os.stat_result, since: int | None = None) -> bool:
    """Whether another change, now or since a moment, could leave the same stamp: then it is not trusted.

    Some file systems store whole seconds, or multiples of two.
    """
    latest = max(state.st_mtime_ns, state.st_ctime_ns)
    tick = 2 * SECOND + FRESH if state.st_mtime_ns % SECOND == 0 else FRESH
    return (NOW() if since is None else since) - latest < tick
