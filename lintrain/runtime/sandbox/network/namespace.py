"""A network of its own for a probe that may reach no other machine: loopback and nothing else (Linux)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SET_FLAGS = 0x8914
UP_AND_RUNNING = 0x1 | 0x40


def leave_the_network() -> bool:
    """Whether this process, and what it starts, has a network without a way out from now on.

    Tried in a process of its own first: some systems allow the namespace and then not its loopback interface.
    """
    if not sys.platform.startswith("linux"):
        return False
    tried = os.fork()
    if tried == 0:
        os._exit(0 if _enter() else 1)
    _, status = os.waitpid(tried, 0)
    return status == 0 and _enter()


def _enter() -> bool:
    system = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    # Root, as in a container, needs no user namespace for this; a user does, and has to stay the same user in it.
    if system.unshare(NEW_NETWORK) != 0:
        if system.unshare(NEW_USER | NEW_NETWORK) != 0:
            return False
        _keep_identity(user, group)
    return _raise_loopback()


def _keep_identity(user: int, group: int) -> None:
    """Be the same user in the new namespace."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as opened:
            opened.write(text)


def _raise_loopback() -> bool:
    import _socket

    opened = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        system = ctypes.CDLL(None, use_errno=True)
        asked = struct.pack("=16sh22x", b"lo", UP_AND_RUNNING)
        return bool(system.ioctl(opened.fileno(), SET_FLAGS, asked) == 0)
    finally:
        opened.close()
