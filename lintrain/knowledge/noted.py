"""The files beside scripts that knowledge is taken from: settings, rows of data, what checkpoints say of themselves."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_NOTED: ContextVar[set[str] | None] = ContextVar("_NOTED", default=None)


@contextmanager
def noted_files() -> Generator[set[str]]:
    """The absolute paths of all files that are looked for meanwhile, there or not; it grows as they are."""
    noted: set[str] = set()
    before = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(before)


def note(path: Path) -> None:
    """Remember that an answer depends on a file, where anybody wants to know."""
    noted = _NOTED.get()
    if noted is not None:
        noted.add(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links
