"""Answer a process that asks, after a failing stage, with which repairs it should run the script again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

from lintrain.evidence.run import Evidence, Repair
from lintrain.evidence.stages import BEFORE_TRAINING, Ending, EndingKind
from lintrain.model.location import Location
from lintrain.runtime.child.going_on import ANSWER
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.events import BEFORE_IT, Assembly, Event, UntrustworthyError
from lintrain.startup.lazy_dataclass import dataclass

MOST_ATTEMPTS = 8
LEAST_SECONDS = 20.0
"""That attempts may take together, however soon the script failed: less would depend on what else the machine does."""


@dataclass(frozen=True, slots=True)
class RepairedText:
    """The text of a script with repairs; `lines` holds for each of its lines the number in the script's file."""

    text: str
    lines: tuple[int, ...]
    repairs: tuple[Repair, ...]


ChooseRepairs = Callable[[Sequence[Evidence]], RepairedText | None]
"""What to repair after these runs; None if nothing new is known. Attempts that came no further are not among them."""


class Answers:
    """The answers to one process; an attempt is one run of the script in it."""

    def __init__(self, choose: ChooseRepairs, entry: Entry, exchange: Path) -> None:
        self._choose, self._entry, self._exchange = choose, entry, exchange
        self._repairs: list[tuple[Repair, ...]] = [()]
        self._asked_at: list[float] = []
        self._began = time.monotonic()

    def __call__(self, assembly: Assembly) -> Event | None:
        """Write the answer to the latest question; returns an event with the new repairs. Raises UntrustworthyError."""
        self._asked_at.append(time.monotonic())
        repaired = self._repaired(assembly)
        if repaired is None:
            self._write({})
            return None
        before = self._repairs[-1]
        self._repairs.append(repaired.repairs)
        self._write(self._document(repaired))
        new = [repair for repair in repaired.repairs if repair not in before]
        return {"event": "going-on", "repairs": [f"line {each.location.line}: {each.text}" for each in new]}

    def runs(self, assembly: Assembly, stopped: str) -> tuple[Evidence, ...]:
        """The evidence of each attempt that came further than the one before; raises UntrustworthyError."""
        kept: list[Evidence] = []
        for attempt, numbered in groupby(assembly.runs(stopped), key=itemgetter(0)):
            found = [replace(run, repairs=(*self._repairs[attempt], *run.repairs)) for _, run in numbered]
            came_further = [run for at, run in enumerate(found) if not at or _comes_with(run, found[at - 1])]
            if not kept or comes_further(came_further[-1], kept[-1]):
                kept += came_further
        return tuple(kept)

    def ending(self, runs: Sequence[Evidence], ending: Ending) -> Ending:
        """How the last of these runs ended: that of a later attempt, which brought nothing new, does not count."""
        if len(self._repairs) == 1 or not runs or set(runs[-1].repairs) >= set(self._repairs[-1]):
            return ending
        failed = runs[-1].failed_stage
        if failed is None or failed.failure is None or failed.name not in BEFORE_TRAINING:
            return replace(ending, kind=EndingKind.MEASURED, reason="")
        reason = f"{failed.failure.type}: {failed.failure.message}"
        return replace(ending, kind=EndingKind.CRASHED, reason=reason)

    def _repaired(self, assembly: Assembly) -> RepairedText | None:
        if len(self._asked_at) == MOST_ATTEMPTS or not self._has_time():
            return None
        runs = self.runs(assembly, BEFORE_IT)
        return self._choose(runs) if runs else None

    def _has_time(self) -> bool:
        """Whether the attempts so far took no longer than the script needs once.

        That is the time until its first error, or that of the longest attempt, for which nothing had to be imported.
        """
        times = [self._began, *self._asked_at]
        took = [after - before for before, after in pairwise(times)]
        return sum(took[1:]) <= max(LEAST_SECONDS, *took)

    def _document(self, repaired: RepairedText) -> dict[str, object]:
        path = str(self._entry.script.absolute())
        first = path if self._entry.module is not None else str(self._entry.script)
        return {
            "path": path,
            "text": repaired.text,
            "lines": repaired.lines,
            "argv": [first, *self._entry.arguments],
            "folder": str(Path.cwd()),
        }

    def _write(self, answer: dict[str, object]) -> None:
        path = self._exchange / f"{ANSWER}{len(self._asked_at)}.json"
        try:
            # A file of the script's own may be there: it must not be taken for the answer.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise UntrustworthyError("answered its own question") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(json.dumps(answer) + "\n")


def _comes_with(run: Evidence, before: Evidence) -> bool:
    """Whether a later run of an attempt counts: another call, or one that a stand-in brought further."""
    return run.call_number != before.call_number or comes_further(run, before)


def comes_further(run: Evidence, before: Evidence) -> bool:
    """Whether a repaired run shows more than the one before it: it does not fail, or fails elsewhere and not sooner.

    A script that ran to a line once and now fails above it fails because of the repair, or because it ran before in
    the same process. The stages of training have no such order: a data set without tokens has batches, and fails later.
    """
    failed, earlier = run.failed_stage, before.failed_stage
    if failed is None or earlier is None or failed.failure is None or earlier.failure is None:
        return failed is None
    if (failed.failure.message, failed.failure.location) == (earlier.failure.message, earlier.failure.location):
        return False
    if failed.name not in BEFORE_TRAINING:
        return True
    return earlier.name in BEFORE_TRAINING and _line(failed.failure.reached) >= _line(earlier.failure.reached)


def _line(reached: Location | None) -> int:
    return reached.line if reached is not None else 0
