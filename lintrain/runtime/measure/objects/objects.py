"""What is known of a script's objects: each kind comes from the hooks that watch it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lintrain.evidence.run import ObjectEvidence

MOST = 64
"""Objects of each kind that are reported."""
Read = Callable[[bool], list[Any]]


class Objects:
    """Whoever watches a kind of object registers here, and is read once, at the end."""

    def __init__(self) -> None:
        self._readers: dict[str, Read] = {}

    def add(self, kind: str, read: Read) -> None:
        """Read a field of `ObjectEvidence` by `read`; its argument says whether a training was measured to its end."""
        self._readers[kind] = read

    def evidence(self, note: Callable[[str], None], *, is_measured: bool) -> ObjectEvidence:
        """Everything that is known by now."""
        found: dict[str, Any] = {}
        for kind, read in self._readers.items():
            try:
                found[kind] = tuple(read(is_measured)[:MOST])
            except Exception as error:  # noqa: BLE001 - the final event is sent whatever the script's objects raise
                note(f"the script's {kind} could not be measured: {type(error).__name__}: {error}")
        return ObjectEvidence(**found)


def can_be_judged_alone(objects: ObjectEvidence) -> bool:
    """Whether there is something to judge although nothing was trained."""
    gives_nothing = any(each.batches == 0 for each in objects.loaders)
    return gives_nothing or any((objects.chats, objects.splits, objects.moved))
