"""Which processes read the files of a run: this one, or several if that is faster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lintrain.check.files import FileReader, ReadFile

WORTH_A_PROCESS = 600_000
"""Bytes of code that justify one more process: about 15,000 lines, which take far longer than its start."""

CODE_OF_NOTEBOOK = 0.1
"""The share of code in the bytes of a notebook, roughly; most are pictures."""


class Executor(Protocol):
    """Reads the files of a run."""

    def read(self) -> list[ReadFile]:
        """Every file, in the order of the request."""
        ...

    def stop(self) -> None:
        """End the processes of a run that was interrupted."""
        ...


class SerialExecutor:
    """Reads in this process, one file after the other."""

    def __init__(self, reader: FileReader, paths: Sequence[str]) -> None:
        self.reader = reader
        self.paths = paths

    def read(self) -> list[ReadFile]:
        """Every file, in the order of the request."""
        read: list[ReadFile] = []
        for path in self.paths:
            read.append(self.reader.read(path))
            self.reader.request.on_progress(len(read), len(self.paths))
        return read

    def stop(self) -> None:
        """Nothing to stop."""


def executor_for(reader: FileReader, paths: Sequence[str]) -> Executor:
    """The executor for these files; its processes have started."""
    most = reader.request.jobs
    if most > 1 and len(paths) > 1:
        sizes = [code_of(path) for path in paths]
        processes = min(most, len(paths), int(sum(sizes) / WORTH_A_PROCESS))
        if processes > 1:
            from lintrain.check.workers import Workers

            return Workers(reader.request, paths, sizes, processes)
    return SerialExecutor(reader, paths)


def code_of(path: str) -> float:
    """About how many bytes of code a file holds; 0 if it does not exist."""
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - a million lines are thousands of files, and a `Path` is slow
    except OSError:
        return 0.0
    return size * CODE_OF_NOTEBOOK if path.endswith(".ipynb") else float(size)


def processors() -> int:
    """How many processes can run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
