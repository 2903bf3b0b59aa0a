"""For processes that run scripts and are forked from one which has the libraries and the probe imported."""

from __future__ import annotations

import weakref
from typing import Any

from lintrain.runtime.child import boot, frames

__all__ = ["LIBRARIES", "boot", "pass_for_started_in"]

LIBRARIES = (
    "torch.utils.data",
    "transformers.trainer",
    "transformers.trainer_seq2seq",
    "datasets",
    "evaluate",
    "scipy.io",
)
"""What nearly every script imports by itself or by what it calls; the probe is imported with this module."""


def pass_for_started_in(folder: str) -> None:
    """Let a process that was just forked work as if Python had been started in a folder."""
    frames.START_FOLDER = folder
    # What the libraries take apart at their exit is that of the first process; it costs more than many a script.
    registered: dict[Any, Any] = weakref.finalize._registry  # type: ignore[attr-defined]  # there is no other way to it
    for finalizer in [*registered]:
        finalizer.atexit = False
