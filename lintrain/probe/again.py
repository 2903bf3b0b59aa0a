"""Measurements that need further passes over the script, in fresh processes, once the first one went well."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lintrain.core.evidence import Evidence, Stage
from lintrain.probe.comparing.checkpoint import compare_resumed
from lintrain.probe.comparing.determinism import compare_starts
from lintrain.probe.downloads import paths_of_downloads
from lintrain.probe.entry import Entry
from lintrain.probe.launcher import Bounds, Launch, package_folder
from lintrain.probe.request import Request, TrailRequest
from lintrain.probe.stream import Event
from lintrain.probe.trail import Trail, UnmeasuredError

Listen = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Starts:
    """How the script is started anew; `ends` is the moment (`time.monotonic`) at which no time is left."""

    entry: Entry
    python: str
    bounds: Bounds
    ends: float
    temporary: Path
    sample_rows: int
    listen: Listen

    def folder(self) -> Path:
        """A fresh folder for the files of a pass; a pass in the same one finds what the other wrote."""
        return Path(tempfile.mkdtemp(dir=self.temporary))

    def follow(self, folder: Path, trail: TrailRequest) -> Trail:
        """One pass; raises UnmeasuredError where no time is left."""
        seconds = self.ends - time.monotonic()
        if seconds < 1.0:
            raise UnmeasuredError(
                f"the {self.bounds.seconds:g} s of the probe had gone by (`--timeout` sets the bound)"
            )
        command, _ = self.entry.prepare(folder)
        events = Path(tempfile.mkdtemp(dir=self.temporary)) / "events.jsonl"
        request = Request(
            script=str(self.entry.script),
            folder=str(Path.cwd()),
            package=package_folder(),
            temporary=str(folder),
            events=str(events),
            device="cpu",
            sample_rows=self.sample_rows,
            downloads=paths_of_downloads(),
            trail=trail,
        )
        found = Trail()
        launch = Launch(request, [self.python, *command], self.entry.environment, None)
        found.ending = launch.follow(replace(self.bounds, seconds=seconds), found.add)
        return found


Measure = Callable[[Starts], Mapping[str, Any]]  # Any: evidence by the names of its fields
AGAIN: Mapping[str, Measure] = {"checkpoint": compare_resumed, "determinism": compare_starts}
"""By the name of the extra, which is that of its stage: what starts the script again and compares."""


def measure_again(starts: Starts, also: tuple[str, ...], evidence: Evidence) -> Evidence:
    """The evidence with what the extras that were asked for add to it."""
    for name in also:
        if name in AGAIN:
            starts.listen({"event": "stage-started", "stage": name})
            stage, values = _measured(starts, name, evidence)
            starts.listen({"event": "stage", "stage": {"name": name, "status": stage.status, "seconds": stage.seconds}})
            evidence = replace(evidence, stages=(*evidence.stages, stage), **values)
    return evidence


def _measured(starts: Starts, name: str, evidence: Evidence) -> tuple[Stage, Mapping[str, Any]]:
    started = time.monotonic()
    if not evidence.passed("step"):
        return Stage(name, "not reached", 0.0, "training does not get as far as one step"), {}
    try:
        values = AGAIN[name](starts)
    except UnmeasuredError as reason:
        return Stage(name, "not reached", time.monotonic() - started, str(reason)), {}
    return Stage(name, "passed", time.monotonic() - started), values
