"""How a probed script came to its end."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.str_enum import StrEnum


class EndingKind(StrEnum):
    """Why nothing more was measured; the values are those of the evidence file."""

    MEASURED = "measured"
    """The run was measured to its end."""
    CRASHED = "crashed"
    """An error before any training call."""
    NO_TRAINING = "no-training"
    BY_HAND = "by-hand"
    """The script changes its weights without an optimizer."""
    ELSEWHERE = "elsewhere"
    """It trains in processes that it starts itself."""
    STOPPED = "stopped"
    """An error after a step that is in no loop."""
    EXITED = "exited"
    """The process ended without a final event, with an exit status."""
    KILLED = "killed"
    TIME = "time"
    MEMORY = "memory"
    DISK = "disk"
    REFUSED = "refused"
    """The script wrote past the guard of its files."""
    UNTRUSTED = "untrusted"
    """The script's process sent events that lintrain's own code does not send."""
    PROBE_FAILED = "probe-failed"
    NEEDS_FULL_DATA = "needs-full-data"
    """A shortcut turned out to be unsound; the parent starts another pass without it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one probe.

    `output` is the last part of what the script printed; `files` are the project's own files that it had loaded;
    `notes` name what a probe did not send, and whether the network was closed.
    """

    kind: EndingKind
    reason: str = ""
    seconds: float = 0.0
    output: str = ""
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
