"""From keystroke to diagnostics: `python -m benchmarks.keystrokes [--edits N] [--more N]`.

A client types a comment into a script of 1,000 lines that imports two modules of its own, and waits for the diagnostics
of each edit. Then it changes a number in a function, and adds and removes a line, and at last types on, to see whether
the server's memory grows. `ast.parse` of the same script, timed between the
edits in this process, tells how busy the machine is. The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.keystroke_project import script_text, write_project
from tests.support.language_client import LanguageClient, span, start_process

MOST_MILLISECONDS = 100
MOST_SECONDS_TO_START = 1.2
TO_CACHE = 3.0
"""Seconds in which a server caches what it found."""
MOST_GROWTH = 5.0
"""MiB: what an allocator may keep."""

TYPED = "# a comment, typed\n"
CHANGED = "    correct, seen = 0, 0"


@dataclass(frozen=True, slots=True)
class Keystrokes:
    """Seconds to the first diagnostics, milliseconds from each edit to its own, and the growth of memory in MiB."""

    start: float
    start_processor: float
    """Seconds of the server's CPU until then."""
    reopened: float
    """Seconds to the first diagnostics of a script that a server has checked before."""
    reopened_processor: float
    edits: tuple[float, ...]
    parse: float
    growth: float
    processor: float
    """Milliseconds of the server's CPU for each edit."""
    of_code: float
    """The same for edits that change a function."""
    of_lines: float
    """The same for edits that add or remove a line."""

    @property
    def p95(self) -> float:
        """What 95 of 100 edits stay below."""
        return statistics.quantiles(self.edits, n=20)[-1]

    @property
    def misses(self) -> list[str]:
        """The bounds that were missed, in words."""
        bounds = (
            ("ms from keystroke to diagnostics (p95)", self.p95, MOST_MILLISECONDS),
            ("s from the start to the first diagnostics", self.start, MOST_SECONDS_TO_START),
            ("MiB of growth", self.growth, MOST_GROWTH),
        )
        return [f"{value:.2f} {name}, {most} at most" for name, value, most in bounds if value > most]


def measure(edits: int, more: int) -> Keystrokes:
    """Type so many characters and measure each, then so many more."""
    with tempfile.TemporaryDirectory(prefix="lintrain-keystrokes-") as folder:
        script = write_project(Path(folder))
        process, client, _ = _started(script, "first")  # compiles what it imports, as an installation does
        time.sleep(TO_CACHE)
        _end(process, client)
        started = time.perf_counter()
        process, client, _ = _started(script, "first")
        reopened, reopened_processor = time.perf_counter() - started, processor_of(process.pid) / 1000
        _end(process, client)
        started = time.perf_counter()
        process, client, uri = _started(script, "second")
        start, start_processor = time.perf_counter() - started, processor_of(process.pid) / 1000
        typist = Typist(client, uri)
        typist.type(20)
        waits = list[float]()
        processor = _processor_for(process.pid, edits, lambda: waits.extend(typist.type(edits)))
        parses = list(typist.parses)
        of_code = _processor_for(process.pid, edits, lambda: typist.type(edits, typist.next_in_function))
        even = edits + edits % 2
        of_lines = _processor_for(process.pid, even, lambda: typist.type(even, typist.next_line))
        memory = memory_of(process.pid)
        typist.type(more)
        growth = memory_of(process.pid) - memory
        _end(process, client)
    parse = statistics.median(parses)
    starts = start, start_processor, reopened, reopened_processor
    return Keystrokes(*starts, tuple(waits), parse, growth, processor, of_code, of_lines)


def _end(process: subprocess.Popen[bytes], client: LanguageClient) -> None:
    client.stop()
    process.wait(30)


def _processor_for(process: int, edits: int, work: Callable[[], object]) -> float:
    """Milliseconds of a process's CPU for each of so many edits."""
    before = processor_of(process)
    work()
    return (processor_of(process) - before) / edits


def _started(script: Path, cache: str) -> tuple[subprocess.Popen[bytes], LanguageClient, str]:
    """A server that has found the mistake in the script, whatever this process does with compiled code."""
    folder = script.parent
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    process, client = start_process(folder, {"LINTRAIN_CACHE_DIR": str(folder / cache), **compiled})
    client.start([folder])
    uri = client.open(script)
    assert client.diagnostics(uri, 1), "the script has a mistake in it"
    return process, client, uri


class Typist:
    """Types a comment below the imports, character by character, and takes it away again; or makes other edits."""

    def __init__(self, client: LanguageClient, uri: str) -> None:
        self.client, self.uri = client, uri
        self.version, self.column = 1, 0
        self.parses: list[float] = []
        self.line = script_text().split("\n").index("logger = logging.getLogger(__name__)") - 1
        self.text = script_text()
        self.has_line = False
        self.changed_line = self.text.split("\n").index(CHANGED)

    def type(self, edits: int, next_change: Callable[[], dict[str, object]] | None = None) -> list[float]:
        """Milliseconds from each edit to its diagnostics."""
        waits: list[float] = []
        for _ in range(edits):
            change = (next_change or self._next)()
            self.version += 1
            started = time.perf_counter()
            self.client.change(self.uri, self.version, change)
            found = self.client.diagnostics(self.uri, self.version)
            waits.append((time.perf_counter() - started) * 1000)
            assert found, "the mistake is still there"
            started = time.perf_counter()
            ast.parse(self.text)
            self.parses.append((time.perf_counter() - started) * 1000)
        return waits

    def next_in_function(self) -> dict[str, object]:
        """Another digit for a number in the first function."""
        end = len(CHANGED)
        return {"range": span(self.changed_line, end - 1, end), "text": str(self.version % 10)}

    def next_line(self) -> dict[str, object]:
        """An empty line above the comment, or its removal."""
        start, end = ({"line": self.line + below, "character": 0} for below in (0, int(self.has_line)))
        self.has_line = not self.has_line
        return {"range": {"start": start, "end": end}, "text": "\n" if self.has_line else ""}

    def _next(self) -> dict[str, object]:
        line, column = self.line, self.column
        if column == len(TYPED) - 1:
            self.column = 0
            return {"range": span(line, 0, column), "text": ""}
        self.column += 1
        return {"range": span(line, column, column), "text": TYPED[column]}


def memory_of(process: int) -> float:
    """MiB that a process holds (Linux)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def processor_of(process: int) -> float:
    """Milliseconds of CPU that a process has used, without its children (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10.0


def main() -> int:
    """Print what was measured, and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--more", type=int, default=1800, help="edits after those that are timed, for the memory")
    options = parser.parse_args()
    measured = measure(options.edits, options.more)
    print(f"start to first diagnostics  {measured.start:8.2f} s   ({MOST_SECONDS_TO_START} at most)")
    print(f"  CPU of the server         {measured.start_processor:8.2f} s")
    print(f"  of a script known before  {measured.reopened:8.2f} s   ({measured.reopened_processor:.2f} s of CPU)")
    print(f"keystroke to diagnostics    {statistics.median(measured.edits):8.1f} ms  (median of {len(measured.edits)})")
    print(f"                            {measured.p95:8.1f} ms  (p95, {MOST_MILLISECONDS} at most)")
    print(f"  CPU of the server         {measured.processor:8.1f} ms  (for each edit)")
    print(f"                            {measured.of_code:8.1f} ms  (for one that changes a function)")
    print(f"                            {measured.of_lines:8.1f} ms  (for one that adds or removes a line)")
    print(f"  ast.parse of the script   {measured.parse:8.1f} ms  (on this machine, meanwhile)")
    print(f"growth over {options.more} more edits {measured.growth:8.1f} MiB ({MOST_GROWTH} at most)")
    for miss in measured.misses:
        print(f"missed: {miss}")
    return 1 if measured.misses else 0


if __name__ == "__main__":
    sys.exit(main())
