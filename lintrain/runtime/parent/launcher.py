"""Run a script in a child process of its own session, follow its events, and end it whole."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from lintrain.evidence.ending import Ending, EndingKind
from lintrain.runtime.child.channel import NO_ROOM
from lintrain.runtime.parent.environment import script_environment
from lintrain.runtime.parent.events import Event, EventFile, UntrustworthyError
from lintrain.runtime.parent.metadata import notes_of_unchanged
from lintrain.runtime.parent.output import ScriptOutput
from lintrain.runtime.parent.pass_request import PassRequest
from lintrain.runtime.parent.processes import Adoption, end_family, family, resident_bytes
from lintrain.runtime.parent.remains import held_bytes, remove_shared_memory
from lintrain.runtime.parent.room import Room
from lintrain.runtime.parent.stopped import notes_of_stopped
from lintrain.runtime.parent.stream import Assembly
from lintrain.runtime.parent.supervised import ScriptProcess
from lintrain.runtime.parent.terminal import ScriptInput
from lintrain.runtime.parent.wall import Wall
from lintrain.runtime.parent.warden import strike_out, write_down
from lintrain.startup.lazy_dataclass import dataclass

POLL_SECONDS = 0.05
MEMORY_SECONDS = 0.25
LAST_WORDS_SECONDS = 1.0
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a probe may take: wall seconds for all passes, resident bytes of all processes together (None: no bound)."""

    seconds: float
    memory: int | None = None


class NoRoomError(Exception):
    """The probe's own files cannot be written; the text says why."""


class Launch:
    """One pass over the script: started, followed, ended; `senders` of its processes may send events."""

    def __init__(
        self,
        request: PassRequest,
        command: Sequence[str],
        environment: Mapping[str, str],
        echo: IO[bytes] | None,
        senders: int = 1,
    ) -> None:
        self.request = request
        self.assembly = Assembly()
        exchange = Path(request.exchange)
        self._file = exchange / "request.json"
        try:
            self._file.write_text(json.dumps(dataclasses.asdict(request)))
        except OSError as error:
            raise NoRoomError(f"{self._file}: {error.strerror}") from error
        # Before the process starts: it opens an existing file, and cannot put one of its own in its place.
        self._events = EventFile(exchange, senders)
        self._started, self._began = time.monotonic(), time.time()
        self._memory_checked = 0.0
        self._disk = shutil.disk_usage(request.temporary).free // 2
        self._room = Room(request.downloads)
        self._input = ScriptInput()
        # Its socket has to exist when the script's first process asks for the wall, which is its first act.
        self._wall = Wall(request)
        variables = {**self._environment(), **environment}
        self._adoption = Adoption()
        try:
            self._process = ScriptProcess(command, request.folder, variables, self._input.file)
        except BaseException:
            self._adoption.end()
            raise
        # As early as possible: if lintrain is killed now, the warden ends what is noted here.
        write_down(Path(request.temporary), self._process.pid, self._process.supervisor)
        self._input.is_handed_over()
        self._output = ScriptOutput(self._process.stdout, echo)

    def _environment(self) -> dict[str, str]:
        request = self.request
        return script_environment(self._file, Path(request.temporary), request.device, offline=request.offline)

    def _notes(self) -> tuple[str, ...]:
        """What the script wanted to send and a probe does not, as lines of the report."""
        asked = ("no other machine could be reached (`--offline`)",) if self.request.offline else ()
        end = self.assembly.end or {}
        said = () if self.assembly.reached_a_run else tuple(str(note) for note in end.get("notes", ()))
        unchanged = notes_of_unchanged(self._wall.metadata.unchanged)
        return (*asked, *said, *notes_of_stopped(Path(self.request.temporary), self._wall.stopped), *unchanged)

    def follow(self, bounds: Bounds, listen: Callable[[Event], None]) -> Ending:
        """Pass events on until the script has been measured, has ended, or a limit is reached; afterwards none of
        its processes runs.
        """
        try:
            kind, reason = self._wait(bounds, listen)
        except UntrustworthyError as error:
            kind, reason = self._distrust(error)
        finally:
            # Order: processes first, for they hold files and sockets; then the helpers that served them, then what
            # they left in memory.
            end_family(self._process, str(self._file), self._adoption.others)
            self._adoption.end()
            self._wall.close()
            strike_out(Path(self.request.temporary))
            self._input.close()
            remove_shared_memory(Path(self.request.temporary), self._began)
        try:
            self._listen(listen)
        except UntrustworthyError as error:
            kind, reason = self._distrust(error)
        self._events.close()
        seconds = time.monotonic() - self._started
        files = tuple(self.assembly.end["files"]) if self.assembly.end else ()
        return Ending(kind, reason, seconds, self._output.tail(), files, self._notes())

    def _distrust(self, error: UntrustworthyError) -> tuple[EndingKind, str]:
        """Forget what was sent: if one event is not from lintrain's own code, any of them may be forged."""
        self.assembly = Assembly()
        return (
            EndingKind.UNTRUSTED,
            f"the script's process sent an event that lintrain's own code does not send: {error}",
        )

    def _wait(self, bounds: Bounds, listen: Callable[[Event], None]) -> tuple[EndingKind, str]:
        while True:
            # Asked before the events are read: a process writes its last event before it ends, so one that has ended
            # by now has written everything.
            has_ended = self._process.poll() is not None
            self._listen(listen)
            if (end := self.assembly.end) is not None:
                # The final event wins over the exit status: a measured run ends its process itself.
                return EndingKind(end["kind"]), str(end["reason"]) or self._own_status()
            if has_ended:
                return self._silent_end()
            if hit := self._bound_hit(bounds):
                return hit
            self._input.answer()
            time.sleep(POLL_SECONDS)

    def _own_status(self) -> str:
        """The exit status of the script as text, or "" if it is 0 or does not arrive in time."""
        try:
            status = self._process.wait(timeout=LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            return ""
        return f"exit status {status}" if status else ""

    def _listen(self, listen: Callable[[Event], None]) -> None:
        for event in self._events.new_events():
            self.assembly.add(event)
            listen(event)

    def _silent_end(self) -> tuple[EndingKind, str]:
        status = self._process.wait()
        if status == NO_ROOM:
            return EndingKind.DISK, f"no space is left for the probe's own files in {tempfile.gettempdir()}"
        if status < 0:
            return EndingKind.KILLED, f"the process was killed by {_signal_name(-status)}"
        return EndingKind.EXITED, f"the script exited with status {status}"

    def _bound_hit(self, bounds: Bounds) -> tuple[EndingKind, str] | None:
        passed = time.monotonic() - self._started
        if passed > bounds.seconds:
            return EndingKind.TIME, f"{bounds.seconds:g} s passed (`--timeout` sets the limit)"
        if passed - self._memory_checked < MEMORY_SECONDS:
            return None
        # Reading the memory of all processes costs some milliseconds, so it is asked four times a second and not in
        # every round.
        self._memory_checked = passed
        written = held_bytes(Path(self.request.temporary))
        if written > self._disk:
            return EndingKind.DISK, f"the script's files hold {written / GIB:.1f} GiB, half of the free space"
        # Checked for the file systems as well: a download goes to the cache, past the script's own folder.
        if lack := self._room.lack():
            return EndingKind.DISK, f"disk space runs out: {lack}"
        if bounds.memory is None:
            return None
        used = resident_bytes(family(self._process, str(self._file), self._adoption.others))
        if used > bounds.memory:
            bound = bounds.memory / GIB
            return EndingKind.MEMORY, f"the script holds {used / GIB:.1f} GiB of {bound:g} (`--memory` sets the limit)"
        return None


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def package_folder() -> str:
    """The folder of this lintrain, for the child to load it from."""
    return os.fspath(Path(__file__).parents[2])
