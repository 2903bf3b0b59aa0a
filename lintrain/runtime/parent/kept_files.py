"""What a probed process left in a folder, as untrusted files: plain ones only, within limits, without following
links.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 512 * 2**20
"""Bytes of all files together: a batch, a tokenizer, settings."""
MOST_FILES = 2_000


def copy_plain_files(source: Path, target: Path) -> None:
    """Copy the plain files of a folder into a new one; raises OSError where they are too many or too large.

    Links, pipes and devices are left behind.
    """
    held = files = 0
    for folder, names, found in os.walk(source):
        names[:] = [name for name in names if not Path(folder, name).is_symlink()]
        inner = target / os.path.relpath(folder, source)
        inner.mkdir(parents=True, exist_ok=True)
        for name in found:
            content = _plain_content(Path(folder, name), LARGEST - held)
            if content is None:
                continue
            held, files = held + len(content), files + 1
            if files + len(names) > MOST_FILES:
                raise OSError(errno.EFBIG, f"more than {MOST_FILES:,} files")
            (inner / name).write_bytes(content)


def _plain_content(path: Path, most: int) -> bytes | None:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {LARGEST // 2**20} MiB")
    return content
