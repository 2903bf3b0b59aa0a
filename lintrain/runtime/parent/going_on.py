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
from lintrain.source.reading import read_file
from lintrain.startup.lazy_dataclass import dataclass

MOST_ATTEMPTS = 8
MOST_CORRECTED = 8
CORRECTED_SECONDS = 120.0
"""For all attempts with corrected stand-ins, however soon the script failed."""
LEAST_SECONDS = 20.0
"""That attempts may take together, however soon the script failed: less would depend on what else the machine does."""


NOTHING_NEW: Event = {"event": "going-on", "repairs": []}


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
        self._latest: RepairedText | None = None
        self._corrected = set[int]()
        self._asked_at: list[float] = []
        self._began = time.monotonic()

    def __call__(self, assembly: Assembly, *, is_corrected: bool = False) -> Event:
        """Write the answer to the latest question; returns an event with the new repairs. Raises UntrustworthyError.

        After a correction of a stand-in the text is the same as before.
        """
        self._asked_at.append(time.monotonic())
        if is_corrected:
            self._answer_corrected()
            return NOTHING_NEW
        repaired = self._repaired(assembly)
        if repaired is None:
            self._write({})
            return NOTHING_NEW
        before = self._repairs[-1]
        self._repairs.append(repaired.repairs)
        self._latest = repaired
        self._write(self._document(repaired))
        new = [repair for repair in repaired.repairs if repair not in before]
        return {"event": "going-on", "repairs": [f"line {each.location.line}: {each.text}" for each in new]}

    def runs(self, assembly: Assembly, stopped: str) -> tuple[Evidence, ...]:
        """The evidence of each attempt that came further than the one before; raises UntrustworthyError.

        One with a corrected stand-in takes the place of the run that failed by what was made up.
        """
        return tuple(run for _, run in self._kept(assembly, stopped))

    def _kept(self, assembly: Assembly, stopped: str) -> list[tuple[int, Evidence]]:
        kept: list[tuple[int, Evidence]] = []
        attempt = -1
        for attempt, numbered in groupby(assembly.runs(stopped), key=itemgetter(0)):
            found = [replace(run, repairs=(*self._repairs[attempt], *run.repairs)) for _, run in numbered]
            came_further = [run for at, run in enumerate(found) if not at or _comes_with(run, found[at - 1])]
            if not kept or comes_further(came_further[-1], kept[-1][1]):
                if kept and attempt in self._corrected and kept[-1][1].failed_stage is not None:
                    del kept[-1]
                kept += ((attempt, run) for run in came_further)
        # A corrected run without evidence came past the failure of the run before it, and trained nothing.
        latest = len(self._repairs) - 1
        if kept and attempt < latest and latest in self._corrected and kept[-1][1].failed_stage is not None:
            del kept[-1]
        return kept

    def ending(self, assembly: Assembly, stopped: str, ending: Ending) -> Ending:
        """How the last of these runs ended: that of a later attempt, which brought nothing new, does not count."""
        kept = self._kept(assembly, stopped)
        if not kept or kept[-1][0] == len(self._repairs) - 1:
            return ending
        failed = kept[-1][1].failed_stage
        if failed is None or failed.failure is None or failed.name not in BEFORE_TRAINING:
            return replace(ending, kind=EndingKind.MEASURED, reason="")
        reason = f"{failed.failure.type}: {failed.failure.message}"
        return replace(ending, kind=EndingKind.CRASHED, reason=reason)

    def _answer_corrected(self) -> None:
        """The text as it was: the process makes its stand-ins in another way."""
        times = [self._began, *self._asked_at]
        took = [after - before for before, after in pairwise(times)]
        has_time = sum(took[1:]) <= max(CORRECTED_SECONDS, *took)
        if len(self._corrected) == MOST_CORRECTED or not has_time:
            self._write({})
            return
        self._repairs.append(self._repairs[-1])
        self._corrected.add(len(self._repairs) - 1)
        self._write(self._document(self._latest or self._as_written()))

    def _as_written(self) -> RepairedText:
        text = read_file(str(self._entry.script)).text
        return RepairedText(text, tuple(range(1, text.count("\n") + 2)), ())

    def _repaired(self, assembly: Assembly) -> RepairedText | None:
        if len(self._asked_at) - len(self._corrected) == MOST_ATTEMPTS or not self._has_time():
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
