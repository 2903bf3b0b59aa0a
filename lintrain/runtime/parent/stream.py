"""Events of a probed process put together to evidence, as far as they came."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lintrain.evidence.ending import EndingKind
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import ALWAYS_MEASURED, StageStatus
from lintrain.runtime.parent.events import Event, UntrustworthyError
from lintrain.runtime.parent.extras import EXTRAS


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
        """Take in one event; after the last word nothing counts, for it comes from another process of the script."""
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
        """The evidence as it is; stages without a word are not reached because of `stopped`.

        Raises UntrustworthyError for values that are no evidence.
        """
        from pydantic import TypeAdapter, ValidationError

        values: dict[str, Any] = {"trainer": "", "call": None, "construction": None, **self._known_values()}
        values["stages"] = [self.stages.get(name) or _missing(name, stopped) for name in self._expected()]
        try:
            return TypeAdapter(Evidence).validate_python(values)
        except (ValidationError, RecursionError) as error:
            raise UntrustworthyError(f"the values are not valid evidence ({_first_problem(error)})") from error

    def _known_values(self) -> dict[str, Any]:
        """Those that are fields of `Evidence`; a note of the report names the others."""
        known = {field.name for field in fields(Evidence)}
        unknown = sorted(self.values.keys() - known)
        if unknown and self.is_strict:
            raise UnknownFieldError(f"evidence has no field {', '.join(unknown)}")
        values = {name: value for name, value in self.values.items() if name in known}
        if unknown:
            note = (
                f"lintrain measured {', '.join(f'`{name}`' for name in unknown)}, which its evidence has no field for"
            )
            values["notes"] = [*values.get("notes", ()), note]
        return values

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
