"""A session without a process of its own: events stay in memory, and the end of a run is not that of the process."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from lintrain.runtime.child.channel import MemoryChannel
from lintrain.runtime.child.probe_session import ProbeSession

LATER = "comes later and was not measured"
"""The end of the notes on calls that a process of its own would not come to."""


class RunEnded(BaseException):
    """The run is measured; passes every `except Exception` on its way."""


class InProcessSession(ProbeSession):
    """The options of a probe in this process; `events` is what it would have sent to a parent."""

    def __init__(self, temporary: str, script: str, *, overfit: int = 0, also: tuple[str, ...] = ()) -> None:
        channel = MemoryChannel()
        super().__init__(
            {
                "temporary": temporary,
                "exchange": temporary,
                "device": "cpu",
                "overfit": overfit,
                "also": also,
                "sample_rows": 0,
                "batches": 4,
                "script": script,
                "shortcuts": (),
            },
            channel,
        )
        self.events: list[dict[str, Any]] = channel.events
        self.knows_origins = False

    def note(self, text: str) -> None:
        """Calls further below in the script are not what was asked about here."""
        if not text.endswith(LATER):
            super().note(text)

    def _find_root(self) -> str:
        """No mark in the environment: the process is not ours."""
        return str(os.getpid())

    @staticmethod
    def _exit() -> NoReturn:
        raise RunEnded
