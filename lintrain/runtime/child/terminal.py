"""The size of the terminal: a script whose output is a pipe gets that of its stdin."""

from __future__ import annotations

import functools
import os

STDIN = 0
OUTPUTS = (1, 2)


def install() -> None:
    """Let `os.get_terminal_size` answer for stdout and stderr, as it would without a probe."""
    original = os.get_terminal_size

    @functools.wraps(original)
    def get_terminal_size(fd: int = 1, /) -> os.terminal_size:
        try:
            return original(fd)
        except OSError:
            if fd not in OUTPUTS:
                raise
            return original(STDIN)  # no terminal either where lintrain has none: the error is as by hand

    os.get_terminal_size = get_terminal_size
