"""Run a script in a child process of its own session, follow its events, and end it whole.

What a script prints: drained so that it never blocks, kept only in part.

What a probe did not send, as lines of its report.

What a script reads from: nothing, or if lintrain runs in a terminal, a terminal of the same size without input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import linecache
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from lintrain.evidence.stages import Ending, EndingKind
from lintrain.runtime.child.channel import ASKS, NO_ROOM, WHERE
from lintrain.runtime.parent.environment import Room, script_environment
from lintrain.runtime.parent.events import Answer, Assembly, Event, EventFile, UntrustworthyError
from lintrain.runtime.parent.metadata import notes_of_unchanged
from lintrain.runtime.parent.pass_request import PassRequest
from lintrain.runtime.parent.processes import Adoption, end_family, family, resident_bytes, strike_out, write_down
from lintrain.runtime.parent.remains import held_bytes, remove_shared_memory
from lintrain.runtime.parent.supervised import ScriptProcess
from lintrain.runtime.parent.wall import Wall
from lintrain.runtime.sandbox.network.gate import FILE
from lintrain.source.reading import read_start
from lintrain.startup.lazy_dataclass import dataclass

POLL_SECONDS = 0.05
MEMORY_SECONDS = 0.25
LAST_WORDS_SECONDS = 1.0
FINALIZATION_SECONDS = 30.0
"""Python ends a process after the last exit handler: a busy machine takes seconds to free what torch has loaded."""
ANSWER_SECONDS = 2.0
FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+) in ', re.MULTILINE)
"""A frame as `faulthandler` writes it, the innermost first."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a probe may take: wall seconds for all passes, resident bytes of all processes together (None: no bound)."""

    seconds: float
    memory: int | None = None


class NoRoomError(Exception):
    """The probe's own files cannot be written; the text says why."""


class Launch:
    """One pass over the script: started, followed, ended; `senders` of its processes may send events.

    `answer` is asked after a failing stage, and writes to a file what the process goes on with; it returns an event
    that names the repairs, or None.
    """

    def __init__(
        self,
        request: PassRequest,
        command: Sequence[str],
        environment: Mapping[str, str],
        echo: IO[bytes] | None,
        senders: int = 1,
        answer: Answer | None = None,
    ) -> None:
        self.request = request
        self.assembly = Assembly()
        self._answer = answer
        exchange = Path(request.exchange)
        self._file = exchange / "request.json"
        try:
            self._file.write_text(json.dumps(dataclasses.asdict(request)))
        except OSError as error:
            raise NoRoomError(f"{self._file}: {error.strerror}") from error
        # Before the process starts: it opens an existing file, and cannot put one of its own in its place.
        self._events = EventFile(exchange, senders)
        (exchange / WHERE).touch()
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
        unsent = () if self.assembly.reached_a_run else (*map(str, end.get("notes", ())), *self.assembly.replaced)
        unchanged = notes_of_unchanged(self._wall.metadata.unchanged)
        return (*asked, *unsent, *notes_of_stopped(Path(self.request.temporary), self._wall.stopped), *unchanged)

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
                kind, reason = EndingKind(end["kind"]), str(end["reason"])
                # A script that failed may still be printing its traceback, whose last line is the error.
                seconds = FINALIZATION_SECONDS if kind is EndingKind.NO_TRAINING else LAST_WORDS_SECONDS
                status = self._own_status(seconds) if not reason or kind is EndingKind.CRASHED else ""
                return kind, reason or status
            if has_ended:
                return self._silent_end()
            if hit := self._bound_hit(bounds):
                return hit
            self._input.answer()
            time.sleep(POLL_SECONDS)

    def _own_status(self, seconds: float) -> str:
        """The exit status of the script as text, or "" if it is 0 or does not arrive in time."""
        try:
            status = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return ""
        return f"exit status {status}" if status else ""

    def _listen(self, listen: Callable[[Event], None]) -> None:
        for event in self._events.new_events():
            self.assembly.add(event)
            listen(event)
            if event["event"] in ("asks", "corrected") and self._answer is not None:
                listen(self._answer(self.assembly, is_corrected=event["event"] == "corrected"))

    def _silent_end(self) -> tuple[EndingKind, str]:
        status = self._process.wait()
        if status == NO_ROOM:
            return EndingKind.DISK, f"no space is left for the probe's own files in {tempfile.gettempdir()}"
        if status < 0:
            return EndingKind.KILLED, f"the process was killed by {_signal_name(-status)}"
        return EndingKind.EXITED, f"the script exited with status {status}"

    def _where(self) -> str:
        """The line that the script's process is at, as text; "" where Python is not asked or does not say."""
        written = Path(self.request.exchange) / WHERE
        if not ASKS:
            return ""
        with suppress(OSError):
            os.kill(self._process.pid, ASKS)
            # On a busy machine Python's answer takes longer than a moment; it comes in parts, shortly after another.
            asked = time.monotonic()
            while not written.stat().st_size and time.monotonic() < asked + ANSWER_SECONDS:
                time.sleep(POLL_SECONDS)
            time.sleep(POLL_SECONDS)
            text = written.read_text(encoding="utf-8", errors="replace")[:KEPT]
            folder = Path(self.request.folder)
            return _line_in(text, folder, folder / self.request.script)
        return ""

    def _bound_hit(self, bounds: Bounds) -> tuple[EndingKind, str] | None:
        passed = time.monotonic() - self._started
        if passed > bounds.seconds:
            where = "" if self.assembly.reached_a_run else self._where()
            return EndingKind.TIME, f"{bounds.seconds:g} s passed (`--timeout` sets the limit){where}"
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


def _line_in(text: str, folder: Path, script: Path) -> str:
    """The innermost line of the script's own files in what Python wrote, and the line of the script that called it."""
    found = list(_own_lines(text, folder, script))
    if not found:
        return ""
    # A line of a module is one of many calls: the script's own says in which of them it was, and so what to shorten.
    outer = next((shown for path, shown in found[1:] if path == script and found[0][0] != script), "")
    return f", at {found[0][1]}{f', called at {outer}' if outer else ''}"


def _own_lines(text: str, folder: Path, script: Path) -> Iterator[tuple[Path, str]]:
    """The files and lines of the script's own code in what Python wrote, the innermost first."""
    from lintrain.runtime.child.frames import PACKAGES

    for found in FRAME.finditer(text):
        path, line = folder / found["path"], int(found["line"])
        is_own = path == script or (path.is_relative_to(folder) and not PACKAGES & {*path.parts})
        code = linecache.getline(str(path), line).strip() if is_own and path.suffix == ".py" else ""
        if code:
            shown = path.relative_to(folder) if path.is_relative_to(folder) else path
            yield path, f"{shown.as_posix()}:{line}: `{code}`"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def package_folder() -> str:
    """The folder of this lintrain, for the child to load it from."""
    return os.fspath(Path(__file__).parents[2])


KEPT = 64 * 2**10


class ScriptOutput:
    """The last 64 KiB of a stream; `echo`, if given, receives everything as it comes."""

    def __init__(self, stream: IO[bytes], echo: IO[bytes] | None = None) -> None:
        self._stream, self._echo = stream, echo
        self._chunks: deque[bytes] = deque()
        self._size = 0
        # A pipe holds 64 KiB: without a reader a script that prints more would wait forever.
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 8192):
                self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        if self._echo is not None:
            self._echo.write(chunk)
            self._echo.flush()
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) > KEPT:
            self._size -= len(self._chunks.popleft())

    def tail(self, lines: int = 30) -> str:
        """The last lines; waits shortly for what is still on its way."""
        self._thread.join(timeout=1.0)
        text = b"".join(list(self._chunks)).decode(errors="replace")
        return "\n".join(text.replace("\r", "\n").splitlines()[-lines:])


NAMED = 12
LARGEST_FILE = 2**20
LONGEST = 160


def notes_of_stopped(temporary: Path, refused: Iterable[str]) -> tuple[str, ...]:
    """One line for each request, with its number; `refused` is what the kernel stopped."""
    counts = Counter([*_written(temporary / FILE), *refused])
    lines = [
        f"not sent: {what if '`' in what else f'`{what}`'}{f', {count} times' if count > 1 else ''}"
        for what, count in counts.most_common(NAMED)
    ]
    return (*lines, f"not sent: {len(counts) - NAMED} other requests") if len(counts) > NAMED else tuple(lines)


def _written(file: Path) -> list[str]:
    """What the script's processes recorded; anything else in the file is ignored."""
    try:
        lines = read_start(file, LARGEST_FILE).splitlines()
    except OSError:
        return []
    found = list[str]()
    for line in lines:
        with suppress(ValueError, RecursionError):
            what = json.loads(line)
            if isinstance(what, str):
                found.append("".join(one if one.isprintable() else "?" for one in what[:LONGEST]))
    return found


END_OF_INPUT = b"\x04"
"""Ctrl-D: a read of a line ends with nothing in it."""


class ScriptInput:
    """The file that a script reads from; a terminal answers every read with the end of its input."""

    def __init__(self) -> None:
        self._ours, self._theirs = _pair()

    @property
    def file(self) -> int:
        """What `subprocess` takes as stdin."""
        return subprocess.DEVNULL if self._theirs is None else self._theirs

    def is_handed_over(self) -> None:
        """The script has been started and holds its end."""
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    def answer(self) -> None:
        """End the input that somebody may be waiting for, and take away what was written to it."""
        if self._ours is None:
            return
        with contextlib.suppress(OSError):  # full of unread ends, or closed by the script
            os.write(self._ours, END_OF_INPUT)
        with contextlib.suppress(OSError):
            os.read(self._ours, 4096)

    def close(self) -> None:
        """Give both ends up."""
        self.is_handed_over()
        if self._ours is not None:
            os.close(self._ours)
            self._ours = None


def _pair() -> tuple[int | None, int | None]:
    """Both ends of a terminal as large as ours; nothing if we are in none, or where the system has no such thing."""
    try:
        import pty
        import termios

        size = os.get_terminal_size(sys.stdin.fileno())
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (size.lines, size.columns))
        os.set_blocking(ours, False)
    except (ImportError, AttributeError, OSError, ValueError):  # Windows, a pipe, a stdin that is closed or replaced
        return None, None
    return ours, theirs
