"""How bad a finding is if it is true."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """error: wrong result or dead run; warning: probably not what was meant; note: time or memory wasted."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
