"""A process of several whose steps were all measured."""

from __future__ import annotations

import time

WAIT_SECONDS = 30.0
"""Seconds that a process waits to be ended after its steps: the others may still need an answer from it."""


def wait_for_the_others() -> None:
    """Nothing more is done here; the parent ends all processes together."""
    ends = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < ends:
        time.sleep(0.05)
