"""Events of a probed process, assembled to evidence as far as they came."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from lintrain.evidence.ending import EndingKind
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import ALWAYS_MEASURED, StageStatus
from lintrain.runtime.parent.events import Event, UntrustworthyError
from lintrain.runtime.parent.extras import EXTRAS

MOST_NAMED = 5


class UnknownFieldError(Exception):
    """A measurement was sent under a name that is no field of `Evidence`: a mistake in lintrain."""


class Assembly:
    """The evidence of one pass, growing; `end` is the final event of the process, `running` the stage under way.

    With `is_strict` an unknown field is an error, as in the tests; else a note names it.
    """

    is_strict = False

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self.running: str | None = None
        self.end: Event | None = None

    def add(self, event: Event) -> None:
        """Take in one event; after the final event nothing counts, for it comes from another process of the script."""
        if self.end is not None:
            return
        match event["event"]:
            case "run" | "measured":
                self.values.update(event["values"])
            case "stage-started":
                self.running = event["stage"]
            case "stage":
                self.stages[event["stage"]["name"]] = event["stage"]
                self.running = None
            case "end" if event["kind"] == EndingKind.ELSEWHERE and self.reached_a_run:
                pass  # what a script trains beside the run that is followed
            case "end":
                self.end = event
                # The notes of the end hold all that came before, and what the sandbox added.
                if self.values and event.get("notes"):
                    self.values["notes"] = event["notes"]
            case _:
                pass

    @property
    def reached_a_run(self) -> bool:
        """Whether there is anything to judge."""
        return bool(self.values)

    def evidence(self, stopped: str) -> Evidence:
        """The evidence so far; stages without an event are not reached because of `stopped`.

        Raises UntrustworthyError for values that are no evidence.
        """
        from pydantic import TypeAdapter, ValidationError

        known = {field.name for field in fields(Evidence)}
        values: dict[str, Any] = {"trainer": "", "call": None, "construction": None}
        values.update({name: value for name, value in self.values.items() if name in known})
        values["stages"] = [self.stages.get(name) or _missing(name, stopped) for name in self._expected()]
        try:
            evidence = TypeAdapter(Evidence).validate_python(values)
        except (ValidationError, RecursionError) as error:
            raise UntrustworthyError(f"the values are not valid evidence ({_first_problem(error)})") from error
        return self._with_note_of(self.values.keys() - known, evidence)

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

    def _expected(self) -> list[str]:
        return [*ALWAYS_MEASURED, *(name for name in EXTRAS if name in self.stages)]


def _missing(name: str, stopped: str) -> dict[str, Any]:
    return {"name": name, "status": StageStatus.NOT_REACHED, "reason": stopped}


def _first_problem(error: Exception) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return "nested too deeply"
    first = error.errors(include_url=False)[0]
    return f"`{'.'.join(map(str, first['loc']))}`: {first['msg'].lower()}"
