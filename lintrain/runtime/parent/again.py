"""Measurements that need further passes over the script, in fresh processes, once the first one went well."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from lintrain.evidence.run import Evidence, Stage
from lintrain.runtime.parent.downloads import paths_of_downloads
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.events import Event
from lintrain.runtime.parent.launcher import Bounds, Launch, package_folder
from lintrain.runtime.parent.launchers import one_process
from lintrain.runtime.parent.request import Request, TrailRequest, new_exchange
from lintrain.runtime.parent.timeline import Trail, UnmeasuredError
from lintrain.runtime.passes.checkpoint import compare_resumed
from lintrain.runtime.passes.determinism import compare_starts
from lintrain.runtime.passes.ranks import compare_ranks
from lintrain.startup.lazy_dataclass import dataclass

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
    echo: IO[bytes] | None = None
    offline: bool = False

    def folder(self) -> Path:
        """A fresh folder for the files of a pass; a pass in the same one finds what the other wrote."""
        return Path(tempfile.mkdtemp(dir=self.temporary))

    def follow(self, folder: Path, trail: TrailRequest) -> Trail:
        """One pass; raises UnmeasuredError where no time is left."""
        exchange = new_exchange(folder)
        command, _ = self.entry.prepare(exchange)
        found = Trail()
        bounds = self._bounds()
        request = self._request(folder, exchange, trail)
        launch = Launch(request, [self.python, *command], self.entry.environment, self.echo)
        found.ending = launch.follow(bounds, found.add)
        return found

    def _bounds(self) -> Bounds:
        seconds = self.ends - time.monotonic()
        if seconds < 1.0:
            went_by = f"the {self.bounds.seconds:g} s of the probe had gone by"
            raise UnmeasuredError(f"{went_by} (`--timeout` sets the bound)")
        return replace(self.bounds, seconds=seconds)

    def _request(self, folder: Path, exchange: Path, trail: TrailRequest) -> Request:
        return Request(
            script=str(self.entry.script),
            folder=str(Path.cwd()),
            package=package_folder(),
            temporary=str(folder),
            exchange=str(exchange),
            device="cpu",
            sample_rows=self.sample_rows,
            downloads=paths_of_downloads(),
            trail=trail,
            offline=self.offline,
        )

    def follow_ranks(self, folder: Path, trail: TrailRequest, processes: int) -> list[Trail]:
        """One pass in which torch's own launcher starts the script several times."""
        found = [Trail() for _ in range(processes)]
        exchange = new_exchange(folder)
        bounds, request = self._bounds(), self._request(folder, exchange, trail)
        command = [self.python, *self._launched(exchange, processes)]
        launch = Launch(request, command, self.entry.environment, self.echo, senders=1 + processes)

        def listen(event: Event) -> None:
            if isinstance(rank := event.get("rank"), int) and rank < processes:
                found[rank].add(event)
            if all(trail.facts.get("done") for trail in found) and launch.assembly.end is None:
                launch.assembly.end = {"kind": "measured", "reason": "", "files": ()}

        ending = launch.follow(bounds, listen)
        for each in found:
            each.ending = ending
        return found

    def _launched(self, exchange: Path, processes: int) -> list[str]:
        command, _ = self.entry.prepare(exchange)
        port = one_process()["MASTER_PORT"]
        where = ["--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", port]
        return ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(processes), *command]


Measure = Callable[[Starts], Mapping[str, Any]]  # Any: evidence by the names of its fields
AGAIN: Mapping[str, Measure] = {"checkpoint": compare_resumed, "determinism": compare_starts, "ranks": compare_ranks}
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
