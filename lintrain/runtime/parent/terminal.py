"""What a script reads from: nothing, or if lintrain runs in a terminal, a terminal of the same size without input."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

END_OF_INPUT = b"\x04"
"""Ctrl-D: a read of a line ends with nothing in it."""


class ScriptInput:
    """The file that a script reads from; a terminal answers every read with the end of its input."""

    def __init__(self) -> None:
        self._ours, self._theirs = _pair()

    @property
    def file(self) -> int:
        """What `subprocess` takes as stdin."""
        return subprocess.DEVNULL if self._theirs is None else self._theirs

    def is_handed_over(self) -> None:
        """The script has been started and holds its end."""
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    def answer(self) -> None:
        """End the input that somebody may be waiting for, and take away what was written to it."""
        if self._ours is None:
            return
        with contextlib.suppress(OSError):  # full of unread ends, or closed by the script
            os.write(self._ours, END_OF_INPUT)
        with contextlib.suppress(OSError):
            os.read(self._ours, 4096)

    def close(self) -> None:
        """Give both ends up."""
        self.is_handed_over()
        if self._ours is not None:
            os.close(self._ours)
            self._ours = None


def _pair() -> tuple[int | None, int | None]:
    """Both ends of a terminal as large as ours; nothing if we are in none, or where the system has no such thing."""
    try:
        import pty
        import termios

        size = os.get_terminal_size(sys.stdin.fileno())
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (size.lines, size.columns))
        os.set_blocking(ours, False)
    except (ImportError, AttributeError, OSError, ValueError):  # Windows, a pipe, a stdin that is closed or replaced
        return None, None
    return ours, theirs
