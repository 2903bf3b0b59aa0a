"""How bad a finding is if it is true."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """error: the run fails or its result is wrong; warning: it costs quality, time or memory; note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
