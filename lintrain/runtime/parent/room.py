"""The free space on disks that no layer protects: those of downloads, and shared memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator

from lintrain.runtime.parent.remains import SHARED_MEMORY

LEAST_LEFT = 0.1
"""The share of what was free at the start; below it the run itself would fail for lack of space."""
GIB = 2**30


class Room:
    """What was free at the start, on each disk once."""

    def __init__(self, downloads: Iterable[str]) -> None:
        self._free = dict(_free_on_each((*downloads, str(SHARED_MEMORY))))

    def lack(self) -> str:
        """Which disk is nearly full by now; empty if none is."""
        for folder, before in self._free.items():
            left = _free(folder)
            if left is not None and left < before * LEAST_LEFT:
                return f"{folder} has {left / GIB:.1f} GiB left of {before / GIB:.1f}"
        return ""


def _free_on_each(folders: Iterable[str]) -> Iterator[tuple[str, int]]:
    seen = set[int]()
    for folder in folders:
        try:
            disk = os.stat(folder).st_dev  # noqa: PTH116 - paths are strings here
        except OSError:
            continue
        free = _free(folder)
        if disk not in seen and free:
            seen.add(disk)
            yield folder, free


def _free(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
