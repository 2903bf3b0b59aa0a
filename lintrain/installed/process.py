"""The process that reads packages, from the side of the one that asks: started at the first request, ended in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from lintrain.cache.watch import unrecorded
from lintrain.startup.lazy_dataclass import dataclass

SECONDS = 10.0
"""Time for the names of one script in one package."""

SECONDS_OF_RUN = 30.0
"""Time for all requests of a run."""

MOST_FAILURES = 3
"""Packages on which the process may die before no other is started."""

LARGEST_ANSWER = 4 * 2**20
"""Bytes of an answer."""

PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lintrain.installed.reading import main; main()"
"""The child gets this process's path: where lintrain and its dependencies are, and no folder of a project."""


@dataclass(eq=False)
class ReadingProcess:
    """One process for the requests of a run; after some failures, or when the time is spent, there is no other."""

    seconds: float = 0.0
    """How long the answers took."""
    failures: int = 0
    was_late: bool = False
    """Whether the last request was given up: on a busy machine it may have an answer another time."""
    _child: subprocess.Popen[bytes] | None = None
    _listener: Thread | None = None
    _lines: SimpleQueue[bytes] = field(default_factory=SimpleQueue[bytes])

    def ask(self, folder: str, name: str, paths: Sequence[str]) -> Mapping[str, Any] | None:
        """What the child answers; None if it does not in time."""
        began = time.monotonic()
        answer = None if self.is_over else self._answer(json.dumps([folder, name, list(paths)]), self._seconds_left())
        self.seconds += time.monotonic() - began
        if answer is None:
            self.failures += 1
            self.stop()
        return answer

    @property
    def is_over(self) -> bool:
        """Whether no more requests are answered."""
        return self.failures >= MOST_FAILURES or self._seconds_left() <= 0

    def _seconds_left(self) -> float:
        return min(SECONDS, SECONDS_OF_RUN - self.seconds)

    def _answer(self, request: str, seconds: float) -> Mapping[str, Any] | None:
        self.was_late = False
        try:
            child = self._child = self._child or self._start()
            if child.stdin is None:
                return None
            child.stdin.write(request.encode() + b"\n")
            child.stdin.flush()
            line = self._lines.get(timeout=seconds)
            return json.loads(line) if line.endswith(b"\n") else None
        except Empty:
            self.was_late = True
        except (OSError, ValueError, RecursionError):
            pass
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        path = [entry for entry in sys.path if os.path.isabs(entry)]
        with unrecorded():
            child = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, json.dumps(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        self._listener = Thread(target=_listen, args=(child, self._lines), daemon=True)
        self._listener.start()
        return child

    def stop(self) -> None:
        """End the child; what it still writes is ignored."""
        child, self._child, self._lines = self._child, None, SimpleQueue()
        if child is not None:
            child.kill()
            child.wait()
            if self._listener is not None:
                self._listener.join()
            with suppress(OSError):  # what was not read is still in its buffer
                if child.stdin is not None:
                    child.stdin.close()


def _listen(child: subprocess.Popen[bytes], lines: SimpleQueue[bytes]) -> None:
    while child.stdout is not None and (line := child.stdout.readline(LARGEST_ANSWER)):
        lines.put(line)
    lines.put(b"")
    if child.stdout is not None:
        child.stdout.close()
