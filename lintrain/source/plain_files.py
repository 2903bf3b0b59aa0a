"""Reading files of other people: regular files only, and never more than requested.

A script, a configuration or a repository may name a pipe without a writer, or a device without an end:
reading it waits forever, or fills the memory.
"""

from __future__ import annotations

import errno
import os
import stat

AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""Opens a pipe without waiting for its writer; Windows has no such pipes."""


def read_plain(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file; raises OSError also if it is not regular, or has more bytes than that."""
    raw = read_start(path, most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most / (1 << 20):g} MiB")
    return raw


def read_start(path: str | os.PathLike[str], most: int) -> bytes:
    """The first bytes of a file; raises OSError also for anything but a regular file."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - before it is opened: that may already act on a device
        raise _not_plain(path)
    with open(path, "rb", opener=_open_at_once) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise _not_plain(path)
        # Requesting `most` at once would allocate all of it: three times as long for a script.
        start = file.read(min(most, state.st_size + 1))
        return start if len(start) <= state.st_size else start + file.read(most - len(start))


def read_plain_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """The text of a file in UTF-8, its lines ended by a line feed; raises as `read_plain`, and UnicodeDecodeError."""
    return read_plain(path, most).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | AT_ONCE)


def _not_plain(path: str | os.PathLike[str]) -> OSError:
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return OSError(errno.EINVAL, "a pipe or a device, not a file")
