"""How much memory this process had at most."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path


def peak_memory() -> int:
    """In KiB on Linux, where `ru_maxrss` would begin with the peak of the process that started this one."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
