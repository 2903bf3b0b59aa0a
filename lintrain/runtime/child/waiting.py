"""One of several processes that has shown what it does."""

from __future__ import annotations

import time

WAIT_SECONDS = 30.0
"""A process that has shown its steps waits so long to be ended: the others may still need an answer of it."""


def wait_for_the_others() -> None:
    """Nothing more is done here; the parent ends all processes together."""
    ends = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < ends:
        time.sleep(0.05)
