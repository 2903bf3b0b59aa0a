"""Have the kernel refuse, to this process and all that it starts, what gets past the guard (Linux's Landlock).

Needs no rights; see `landlock(7)`. Threads that run already are not bound, so this comes before the script.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on every processor that Linux's Python runs on but Alpha."""
VERSION = 1
NO_NEW_PRIVILEGES = 38
LEAST_VERSION = 2
"""The first one forbids every renaming from one folder to another, even where all is allowed."""

WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 14))
"""Writing, removing, making of every kind, and moving between folders."""

SIGNALS = 1 << 1
"""From version 6 on: none to processes that the script did not start."""


class _Rules(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Below(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def allow_writing_only_in(folders: Iterable[str]) -> bool:
    """Whether the kernel holds this process to these folders from now on; those that are not there are left out."""
    if not sys.platform.startswith("linux"):
        return False
    system = ctypes.CDLL(None, use_errno=True)
    # Asked without rules the call answers with the version, and with an error on kernels that have no Landlock.
    version = system.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    if version < LEAST_VERSION:
        return False
    changes = CHANGES | (TRUNCATE if version >= 3 else 0)
    # A kernel refuses a structure with fields that it does not know, so an older one gets a shorter one.
    rules, size = (_Rules(changes, 0, SIGNALS), 24) if version >= 6 else (_Rules(changes, 0, 0), 8)
    ruleset = system.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for folder in folders:
            _allow(system, ruleset, folder, changes)
        # Required by the kernel: a program with the set-user-id bit could otherwise be tricked by the restrictions.
        keeps = system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        return bool(keeps and system.syscall(RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(system: ctypes.CDLL, ruleset: int, folder: str, changes: int) -> None:
    try:
        opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        below = _Below(changes, opened)
        system.syscall(ADD_RULE, ruleset, 1, ctypes.byref(below), 0)
    finally:
        os.close(opened)
