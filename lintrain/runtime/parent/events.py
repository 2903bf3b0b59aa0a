"""The events of a probed process, read as untrusted data.

The process runs the script's code, which may write into our file, replace it, cut it off, or fill it. So the file is
made and opened here before the process starts, and read through that one descriptor: what its path names later does not
matter, and no read can wait. Lines, their number and their sum are bounded before they are decoded, and every event has
to have the fields that lintrain's own code gives it, and its signature (`child.signing`): what the script's code writes
into the file has none. One event that lacks something makes all of them untrustworthy.

Events of a probed process, assembled to evidence as far as they came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any, Protocol

from lintrain.evidence.run import Evidence, Repair
from lintrain.evidence.stages import ALWAYS_MEASURED, STAND_IN, EndingKind, StageStatus
from lintrain.runtime.child.channel import EVENTS, KEY_BYTES, derived_key, leave_key, signature
from lintrain.runtime.parent.pass_request import EXTRAS
from lintrain.startup.validators import validator_of

Event = dict[str, Any]  # Any: events hold whatever JSON holds

LONGEST_LINE = 16 * 2**20
"""Bytes of one event; the largest of ordinary runs hold some hundred kilobytes of samples."""

LONGEST_NAME = 100
"""Of a key, as "0.2.1": the first that the second process started by the script's own gave on."""
MOST_BYTES = 256 * 2**20
MOST_EVENTS = 200_000
CHUNK = 2**20

STAGE: Mapping[str, type | tuple[type, ...]] = {"name": str, "status": str, "seconds": (int, float)}
FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "started": {"pid": int},
    "run": {"values": dict},
    "measured": {"values": dict},
    "stage-started": {"stage": str},
    "stage": {"stage": dict},
    "progress": {"done": int, "of": (int, type(None))},
    "timeline": {"facts": dict},
    "timeline-step": {"step": dict},
    "rank-write": {"path": str, "location": (dict, type(None))},
    "rank-gather": {"gather": dict},
    "rank-collective": {"function": str, "location": dict, "calls": int},
    "rank-print": {"location": dict},
    "rank-wait": {"function": str, "location": (dict, type(None))},
    "asks": {},
    "corrected": {},
    "attempt": {},
    "call": {},
    "stand-in": {"text": str},
    "replaced": {"item": dict},
    "end": {"kind": str, "reason": str, "notes": list, "files": list},
}
"""What each kind of event has to hold; what the evidence in it holds is validated when it is assembled."""


STATUSES, KINDS = frozenset(StageStatus), frozenset(EndingKind)


class UntrustworthyError(Exception):
    """The events are not those that lintrain's own code sends; the text says what is wrong with them."""


class EventFile:
    """The file that the probed processes append to, read while it grows; so many `senders` get a key each."""

    def __init__(self, exchange: Path, senders: int = 1) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(exchange / EVENTS, flags, 0o600)
        self._signatures = _Signatures()
        for number in range(senders):
            leave_key(str(exchange), str(number), self._signatures.new_key(str(number)))
        self._read = 0
        self._count = 0
        self._rest = b""

    def new_events(self) -> list[Event]:
        """The whole lines that came since the last call; raises UntrustworthyError."""
        size = os.fstat(self._descriptor).st_size
        if size < self._read:
            raise UntrustworthyError("the event file was truncated")
        if size > MOST_BYTES:
            raise UntrustworthyError(f"more than {MOST_BYTES >> 20} MiB of events were sent")
        events: list[Event] = []
        while self._read < size and (chunk := self._next_chunk()):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                raise UntrustworthyError(f"an event has more than {LONGEST_LINE >> 20} MiB")
            events += [self._event(line) for line in lines if line]
        return events

    def _next_chunk(self) -> bytes:
        os.lseek(self._descriptor, self._read, os.SEEK_SET)
        chunk = os.read(self._descriptor, CHUNK)
        self._read += len(chunk)
        return chunk

    def _event(self, line: bytes) -> Event:
        self._count += 1
        if self._count > MOST_EVENTS:
            raise UntrustworthyError(f"more than {MOST_EVENTS:,} events were sent")
        try:
            return checked_event(json.loads(self._signatures.checked(line)))
        except UntrustworthyError as error:
            raise UntrustworthyError(f"event {self._count} {error}") from None
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or nested too deeply
            raise UntrustworthyError(f"event {self._count} is not JSON") from error

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


class _Signatures:
    """The keys of one pass, and what each of them has signed."""

    def __init__(self) -> None:
        self._states: dict[str, blake2b] = {}
        self._seen: set[bytes] = set()

    def new_key(self, name: str) -> bytes:
        """A key that cannot be guessed, under a name."""
        key = os.urandom(KEY_BYTES)
        self._states[name] = blake2b(key=key, digest_size=KEY_BYTES)
        return key

    def checked(self, line: bytes) -> bytes:
        """What was signed; raises UntrustworthyError if it was not, or is a repetition."""
        mark, _, content = line.partition(b" ")
        name, *_, event = (*content.split(b" ", 3), b"", b"", b"")[:4]
        state = self._state(name.decode("ascii", "replace"))
        if state is None or not compare_digest(mark, signature(state, content)):
            raise UntrustworthyError("is not signed by lintrain's own code")
        if mark in self._seen:
            raise UntrustworthyError("came twice")
        self._seen.add(mark)
        return event

    def _state(self, name: str) -> blake2b | None:
        """A hash with the key of this name; one that a process was given by another one comes from that one's key."""
        if name not in self._states and len(name) < LONGEST_NAME:
            giver, _, number = name.rpartition(".")
            state = self._state(giver) if giver and number.isdecimal() else None
            if state is not None:
                self._states[name] = blake2b(key=derived_key(state, int(number)), digest_size=KEY_BYTES)
        return self._states.get(name)


def checked_event(found: object) -> Event:
    """An event that has its fields, of their types; raises UntrustworthyError."""
    if not isinstance(found, dict):
        raise UntrustworthyError("is not an object")
    event: Event = found  # pyright: ignore[reportUnknownVariableType] - JSON's keys are texts
    kind = event.get("event")
    fields = FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise UntrustworthyError("is of an unknown kind")
    _demand(event, fields, str(kind))
    if kind == "stage":
        _demand(event["stage"], STAGE, "stage")
        if event["stage"]["status"] not in STATUSES:
            raise UntrustworthyError("(`stage`) has an unknown status")
    if kind == "end" and event["kind"] not in KINDS:
        raise UntrustworthyError("(`end`) is of an unknown kind")
    if kind == "end" and not all(isinstance(each, str) for each in (*event["notes"], *event["files"])):
        raise UntrustworthyError("(`end`) lists something other than files or notes")
    return event


def _demand(event: Event, fields: Mapping[str, type | tuple[type, ...]], kind: str) -> None:
    for name, types in fields.items():
        if name not in event or not isinstance(event[name], types):
            raise UntrustworthyError(f"(`{kind}`) has no `{name}` of its type")


MOST_NAMED = 5


class UnknownFieldError(Exception):
    """A measurement was sent under a name that is no field of `Evidence`: a mistake in lintrain."""


MOST_RUNS = 128
LONGEST_STAND_IN = 100
BEFORE_IT = "the script ended before it"
"""Why an attempt that failed did not reach a stage."""


class _Run:
    """The evidence of one training call in one attempt to run the script, growing; `attempt` counts from 0.

    `stand_ins` are what the process put in place of parts that failed in earlier runs of the call.
    """

    def __init__(self, attempt: int, stand_ins: tuple[str, ...] = ()) -> None:
        self.attempt = attempt
        self.stand_ins = stand_ins
        self.values: dict[str, Any] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self.running: str | None = None


class Assembly:
    """The evidence of one pass, growing; `end` is the final event of the process, `running` the stage under way.

    A process that goes on after a failing stage makes several attempts, and a script has several training calls.
    `replaced` are the stand-ins of a process, which tells them also where it reaches no run. With
    `is_strict` an unknown field is an error, as in the tests; else a note names it.
    """

    is_strict = False

    def __init__(self) -> None:
        self._runs = [_Run(0)]
        self.end: Event | None = None
        self.replaced: list[str] = []

    def add(self, event: Event) -> None:
        """Take in one event; after the final event nothing counts, for it comes from another process of the script."""
        if self.end is not None:
            return
        latest = self._runs[-1]
        match event["event"]:
            case "run" | "measured":
                latest.values.update(event["values"])
            case "stage-started":
                latest.running = event["stage"]
            case "stage":
                latest.stages[event["stage"]["name"]] = event["stage"]
                latest.running = None
            case "attempt":
                self._begin(latest.attempt + 1)
            case "call":
                self._begin(latest.attempt)
            case "stand-in":
                self._begin(latest.attempt, (*latest.stand_ins, event["text"][:LONGEST_STAND_IN]))
            case "replaced" if len(self.replaced) < MOST_RUNS:
                item = event["item"]
                self.replaced.append(f"stand-in: {item.get('name')} → {item.get('by')}"[: 2 * LONGEST_STAND_IN])
            case "end" if event["kind"] == EndingKind.ELSEWHERE and self.reached_a_run:
                pass  # other training of the script during the measured run
            case "end":
                self._take_end(event)
            case _:
                pass

    def _begin(self, attempt: int, stand_ins: tuple[str, ...] = ()) -> None:
        if len(self._runs) == MOST_RUNS:
            raise UntrustworthyError(f"more than {MOST_RUNS} runs were sent")
        self._runs.append(_Run(attempt, stand_ins))

    def _take_end(self, event: Event) -> None:
        self.end = event
        # The notes of the end hold all that came before, and what the sandbox added.
        latest = next((run for run in reversed(self._runs) if run.values), None)
        if latest is not None and event.get("notes"):
            latest.values["notes"] = event["notes"]

    @property
    def running(self) -> str | None:
        """The stage under way."""
        return self._runs[-1].running

    @property
    def reached_a_run(self) -> bool:
        """Whether there is anything to judge."""
        return any(run.values for run in self._runs)

    def evidence(self, stopped: str) -> Evidence:
        """The evidence of the first run; stages without an event are not reached because of `stopped`.

        Raises UntrustworthyError for values that are no evidence.
        """
        return self._evidence(self._runs[0], stopped)

    def runs(self, stopped: str) -> tuple[tuple[int, Evidence], ...]:
        """Every run with the number of its attempt, its stand-ins among its repairs; raises as `evidence` does."""
        last = self._runs[-1]
        return tuple(
            (run.attempt, self._evidence(run, stopped if run is last else BEFORE_IT))
            for run in self._runs
            if run.values
        )

    def _evidence(self, run: _Run, stopped: str) -> Evidence:
        from pydantic import ValidationError

        known = {field.name for field in fields(Evidence)} - {"repairs"}  # which the parent knows
        values: dict[str, Any] = {"trainer": "", "call": None, "construction": None}
        values.update({name: value for name, value in run.values.items() if name in known})
        expected = [*ALWAYS_MEASURED, *(name for name in EXTRAS if name in run.stages)]
        values["stages"] = [run.stages.get(name) or _missing(name, stopped) for name in expected]
        try:
            evidence = validator_of(Evidence).validate_python(values)
        except (ValidationError, RecursionError) as error:
            raise UntrustworthyError(f"the values are not valid evidence ({_first_problem(error)})") from error
        stand_ins = tuple(Repair(STAND_IN, text, evidence.location) for text in run.stand_ins)
        return self._with_note_of(run.values.keys() - known, replace(evidence, repairs=stand_ins))

    def _with_note_of(self, unknown: set[str], evidence: Evidence) -> Evidence:
        """Add a note that names unknown fields: their measurements are lost."""
        if not unknown:
            return evidence
        if self.is_strict:
            raise UnknownFieldError(f"evidence has no field {', '.join(sorted(unknown))}")
        # Names come from the script's process: only those that could be a field are shown.
        names = [f"`{name[:40]}`" for name in sorted(unknown) if name.isidentifier()][:MOST_NAMED] or ["something"]
        note = f"lintrain measured {', '.join(names)}, which its evidence has no field for"
        return replace(evidence, notes=(*evidence.notes, note))


def _missing(name: str, stopped: str) -> dict[str, Any]:
    return {"name": name, "status": StageStatus.NOT_REACHED, "reason": stopped}


def _first_problem(error: Exception) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return "nested too deeply"
    first = error.errors(include_url=False)[0]
    return f"`{'.'.join(map(str, first['loc']))}`: {first['msg'].lower()}"


class Answer(Protocol):
    """What writes the answer to a process that asks after a failing stage; returns an event with the new repairs."""

    def __call__(self, assembly: Assembly, *, is_corrected: bool) -> Event:
        """The event; `is_corrected` where the process has corrected its stand-ins by itself."""
        ...
