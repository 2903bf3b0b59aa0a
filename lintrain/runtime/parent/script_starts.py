"""Start the script of a probe again, in fresh processes, to follow its first steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from lintrain.runtime.parent.downloads import paths_of_downloads
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.events import Event
from lintrain.runtime.parent.launcher import Bounds, Launch, package_folder
from lintrain.runtime.parent.launchers import one_process
from lintrain.runtime.parent.pass_request import PassRequest, TimelineRequest, new_exchange
from lintrain.runtime.parent.timeline import Timeline, UnmeasuredError
from lintrain.startup.lazy_dataclass import dataclass

Listen = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ScriptStarts:
    """How the script is started again; `ends` is the moment (`time.monotonic`) at which no time is left."""

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

    def follow(self, folder: Path, timeline: TimelineRequest) -> Timeline:
        """One pass; raises UnmeasuredError where no time is left."""
        exchange = new_exchange(folder)
        command, _ = self.entry.prepare(exchange)
        found = Timeline()
        bounds = self._bounds()
        request = self._request(folder, exchange, timeline)
        launch = Launch(request, [self.python, *command], self.entry.environment, self.echo)
        found.ending = launch.follow(bounds, found.add)
        return found

    def _bounds(self) -> Bounds:
        seconds = self.ends - time.monotonic()
        # Importing the libraries alone takes longer: a pass that cannot end is not started.
        if seconds < 1.0:
            went_by = f"the {self.bounds.seconds:g} s of the probe had passed"
            raise UnmeasuredError(f"{went_by} (`--timeout` sets the limit)")
        return replace(self.bounds, seconds=seconds)

    def _request(self, folder: Path, exchange: Path, timeline: TimelineRequest) -> PassRequest:
        return PassRequest(
            script=str(self.entry.script),
            folder=str(Path.cwd()),
            package=package_folder(),
            temporary=str(folder),
            exchange=str(exchange),
            device="cpu",
            sample_rows=self.sample_rows,
            downloads=paths_of_downloads(),
            timeline=timeline,
            offline=self.offline,
        )

    def follow_ranks(self, folder: Path, timeline: TimelineRequest, processes: int) -> list[Timeline]:
        """One pass in which torch's own launcher starts the script several times."""
        found = [Timeline() for _ in range(processes)]
        exchange = new_exchange(folder)
        bounds, request = self._bounds(), self._request(folder, exchange, timeline)
        command = [self.python, *self._launched(exchange, processes)]
        launch = Launch(request, command, self.entry.environment, self.echo, senders=1 + processes)

        def listen(event: Event) -> None:
            # The number comes from the script's process: it is checked before it is used as an index.
            if isinstance(rank := event.get("rank"), int) and rank < processes:
                found[rank].add(event)
            # A rank that is done waits for the others, and torch's launcher waits for its ranks: the pass is ended
            # from here once all have reported.
            if all(timeline.facts.get("done") for timeline in found) and launch.assembly.end is None:
                launch.assembly.end = {"kind": "measured", "reason": "", "files": ()}

        ending = launch.follow(bounds, listen)
        for each in found:
            each.ending = ending
        return found

    def _launched(self, exchange: Path, processes: int) -> list[str]:
        command, _ = self.entry.prepare(exchange)
        # A free port for each pass: the default one may be in use by a real training on this machine.
        port = one_process()["MASTER_PORT"]
        where = ["--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", port]
        return ["-m", "torch.distributed.run", *where, "--nproc-per-node", str(processes), *command]
