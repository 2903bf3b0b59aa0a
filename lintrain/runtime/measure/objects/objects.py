"""What is known of a script's objects, each kind told by whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lintrain.evidence.run import ObjectEvidence

MOST = 64
"""Objects of each kind that are told of."""
Tell = Callable[[bool], list[Any]]


class Objects:
    """Those who watch each register here; they are asked once, when the last word is said."""

    def __init__(self) -> None:
        self._tellers: dict[str, Tell] = {}

    def told_by(self, kind: str, tell: Tell) -> None:
        """Ask `tell` for a field of `ObjectEvidence`; it is told whether a training was measured to its end."""
        self._tellers[kind] = tell

    def evidence(self, note: Callable[[str], None], *, is_measured: bool) -> ObjectEvidence:
        """Everything that is known by now."""
        found: dict[str, Any] = {}
        for kind, tell in self._tellers.items():
            try:
                found[kind] = tuple(tell(is_measured)[:MOST])
            except Exception as error:  # noqa: BLE001 - the last word is said whatever the script's objects raise
                note(f"the script's {kind} could not be measured: {type(error).__name__}: {error}")
        return ObjectEvidence(**found)


def tells_without_training(objects: ObjectEvidence) -> bool:
    """Whether there is something to judge where nothing was trained."""
    gives_nothing = any(each.batches == 0 for each in objects.loaders)
    return gives_nothing or any((objects.chats, objects.splits, objects.moved))
