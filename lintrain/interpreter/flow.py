"""Where execution goes after a statement."""

from __future__ import annotations

from enum import Enum


class Flow(Enum):
    """On to the next statement, out of the loop's iteration, or out of the function."""

    ON = 0
    LEAVE_LOOP = 1
    LEAVE_FUNCTION = 2
