"""Events of a probed process put together to evidence, as far as they came."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from lintrain.core.evidence import Evidence
from lintrain.probe.extras import EXTRAS

STAGES = ("script", "construction", "dataset", "batch", "forward", "backward", "step", "evaluation")
Event = dict[str, Any]


class EventFile:
    """The file that the probed process appends to, read while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_events(self) -> list[Event]:
        """The whole lines that came since the last call."""
        import json

        if not self._path.exists():
            return []
        with self._path.open("rb") as opened:
            opened.seek(self._offset)
            text = opened.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        return [json.loads(line) for line in complete.splitlines() if line]


class Assembly:
    """The evidence of one pass, growing; `end` is the last word of the process, `running` the stage under way."""

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
            case "end" if event["kind"] == "elsewhere" and self.reached_a_run:
                pass  # what a script trains beside the run that is followed
            case "end":
                self.end = event
                if self.values and event.get("notes"):
                    self.values["notes"] = event["notes"]
            case _:
                pass

    @property
    def reached_a_run(self) -> bool:
        """Whether there is anything to judge."""
        return bool(self.values)

    def evidence(self, stopped: str) -> Evidence:
        """The evidence as it stands; stages without a word are not reached because of `stopped`."""
        from pydantic import TypeAdapter

        known = {field.name for field in fields(Evidence)}
        values: dict[str, Any] = {"trainer": "", "call": None, "construction": None}
        values.update({name: value for name, value in self.values.items() if name in known})
        values["stages"] = [self.stages.get(name) or _missing(name, stopped) for name in self._expected()]
        return TypeAdapter(Evidence).validate_python(values)

    def _expected(self) -> list[str]:
        return [*STAGES, *(name for name in EXTRAS if name in self.stages)]


def _missing(name: str, stopped: str) -> dict[str, Any]:
    return {"name": name, "status": "not reached", "reason": stopped}
