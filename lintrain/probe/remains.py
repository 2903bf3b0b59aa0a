"""What a script leaves in places that a temporary folder cannot stand for, and how much it writes."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from lintrain.core.lazy_pattern import lazy_pattern

SHARED_MEMORY = Path("/dev/shm")
NAMES = "shared-memory.txt"
"""In the temporary folder: the names of shared memory that processes of the script made, one in each line."""

TORCH = lazy_pattern(r"torch_(\d+)_")


def held_bytes(folder: Path) -> int:
    """What the files below a folder hold on disk, in bytes."""
    held = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                held += Path(path, name).lstat().st_blocks * 512
    return held


def remove_shared_memory(temporary: Path) -> None:
    """Remove shared memory that the script made, and that of torch whose maker is dead: nobody can open it again."""
    if not SHARED_MEMORY.is_dir():
        return
    listed = temporary / NAMES
    known = set(listed.read_text(errors="replace").split()) if listed.is_file() else set[str]()
    for path in SHARED_MEMORY.iterdir():
        torch = TORCH.match(path.name)
        if f"/{path.name}" in known or (torch and not Path("/proc", torch[1]).exists()):
            with suppress(OSError):
                path.unlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder, also where the script took the rights to its folders away."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(path, name)
            with suppress(OSError):
                if not inner.is_symlink():
                    inner.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
