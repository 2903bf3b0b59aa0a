"""What a script prints: drained so that it never blocks, kept only in part."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import IO

KEPT = 64 * 2**10


class ScriptOutput:
    """The last 64 KiB of a stream; `echo`, if given, receives everything as it comes."""

    def __init__(self, stream: IO[bytes], echo: IO[bytes] | None = None) -> None:
        self._stream, self._echo = stream, echo
        self._chunks: deque[bytes] = deque()
        self._size = 0
        # A pipe holds 64 KiB: without a reader a script that prints more would wait forever.
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 8192):
                self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        if self._echo is not None:
            self._echo.write(chunk)
            self._echo.flush()
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) > KEPT:
            self._size -= len(self._chunks.popleft())

    def tail(self, lines: int = 30) -> str:
        """The last lines; waits shortly for what is still on its way."""
        self._thread.join(timeout=1.0)
        text = b"".join(list(self._chunks)).decode(errors="replace")
        return "\n".join(text.replace("\r", "\n").splitlines()[-lines:])
