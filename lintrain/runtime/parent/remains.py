"""What a script leaves outside of the temporary folder, and how much it writes.

What a probed process left in a folder, as untrusted files: plain ones only, within limits, without following
links.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from lintrain.source.reading import read_start
from lintrain.startup.lazy_pattern import lazy_pattern

SHARED_MEMORY = Path("/dev/shm")
NAMES = "shared-memory.txt"
"""In the temporary folder: what processes of the script made, one in each line: names of shared memory, and their own
pids."""

LARGEST_LIST = 2**20
MAY_HAVE_BEGUN = 1.0
"""Seconds that the clock of a file system may be behind."""

TORCH = lazy_pattern(r"torch_(\d+)_")


def held_bytes(folder: Path) -> int:
    """What the files below a folder hold on disk, in bytes."""
    held = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                # Blocks and not the length: a sparse file of a terabyte holds nothing.
                held += Path(path, name).lstat().st_blocks * 512
    return held


def remove_shared_memory(temporary: Path, since: float) -> None:
    """Remove the shared memory that processes of the script made `since` a time of the system's clock.

    Torch names its own after the process that made it. Other people's processes may be out of sight, as in a container
    that shares only memory with its host, so a name counts only if a process of this run had that pid.
    """
    if not SHARED_MEMORY.is_dir():
        return
    made = _made_by_the_script(temporary / NAMES)
    for path in SHARED_MEMORY.iterdir():
        torch = TORCH.match(path.name)
        if f"/{path.name}" in made or (torch and torch[1] in made):
            with suppress(OSError):
                state = path.lstat()
                # Names of shared memory are free again once their process has ended, and another
                # program may have taken one.
                if state.st_uid == os.geteuid() and state.st_ctime >= since - MAY_HAVE_BEGUN:
                    path.unlink()


def _made_by_the_script(file: Path) -> set[str]:
    try:
        return set(read_start(file, LARGEST_LIST).decode(errors="replace").split())
    except OSError:
        return set()


def remove_folder(folder: Path) -> None:
    """Remove a folder, also where the script took the rights to its folders away."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(path, name)
            with suppress(OSError):
                if not inner.is_symlink():
                    # `rmtree` cannot list a folder without rights. Links are left out: `chmod` would follow them
                    # to the user's folders.
                    inner.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)


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
    # The type is asked twice, by name and by descriptor: between the two the script may put a pipe there, on which
    # `open` would wait without `O_NONBLOCK`.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        # One more than allowed: the file may grow while it is read, so its size beforehand proves nothing.
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {LARGEST // 2**20} MiB")
    return content
