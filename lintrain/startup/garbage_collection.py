"""Garbage collection that a run of a few seconds can do without."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Leave out of collection what has been imported, and collect a hundred times less often.

    Syntax trees and findings contain few reference cycles, so that collecting them costs more than it frees.
    """
    gc.freeze()
    gc.set_threshold(300_000, 20, 100)
