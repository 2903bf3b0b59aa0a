"""Garbage is collected rarely while a script imports its libraries: they make many objects and hardly any garbage."""

from __future__ import annotations

import gc

RARELY = (50_000, 20, 20)
"""A seventh of the CPU time of importing torch and transformers went into collections at Python's own thresholds."""


class Thresholds:
    """Python's thresholds of garbage collection, raised until the training starts."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()

    def raise_them(self) -> None:
        """Collect rarely from now on."""
        gc.set_threshold(*RARELY)

    def put_back(self) -> None:
        """Collect as before, unless the script has set thresholds of its own."""
        if gc.get_threshold() == RARELY:
            gc.set_threshold(*self._before)
