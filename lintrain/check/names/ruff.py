"""Ruff as a subprocess: started before lintrain reads, its clues collected afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from threading import Thread
from typing import Any

from lintrain.source.bounds import find_program
from lintrain.source.notebook import TooManyValuesError, is_large_notebook, without_outputs
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

NAME_CODES = ("F821", "F823")
COMPILER_CODES = ("F701", "F702", "F704", "F706", "F707")
"""`break`, `continue`, `yield`, `return` and `except` where Python's compiler, not its parser, refuses them."""

BATCH = 30_000
"""Characters of file names given to one process: the shortest limit of all systems (Windows)."""


MOST_RETRIES = 64
"""How often a batch is halved: an expression of 9,000 terms overflows ruff's stack, and takes its batch along."""

MOST_SECONDS = 120
"""For one process; ruff takes milliseconds for an ordinary file."""


@dataclass(frozen=True, slots=True)
class Clue:
    """What ruff reports for one location; in a notebook `line` counts within the cell."""

    code: str
    message: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True)
class NameSearch:
    """Processes of ruff that are at work; `problem` says in one line why there is none, or what went wrong."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    readers: list[Thread] = field(default_factory=list[Thread])
    outputs: list[bytes] = field(default_factory=list[bytes])
    problem: str = ""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The paths that ruff knows by another name."""
    retries: int = MOST_RETRIES
    is_stopped: bool = False

    def spend_retry(self) -> bool:
        """Whether a batch that ended ruff may be tried again in two halves, to find the file that did."""
        self.retries -= 1
        return self.retries >= 0

    def collect(self) -> dict[str, list[Clue]]:
        """Wait for the end and return the clues by absolute path."""
        for reader in self.readers:  # which may start others while it is joined
            reader.join()
        clues: dict[str, list[Clue]] = {}
        try:
            for path, clue in (found for output in self.outputs for found in _read_clues(output)):
                clues.setdefault(self.names.get(path, path), []).append(clue)
        except (LookupError, TypeError, ValueError):
            self.problem = "the output of ruff is not understood, so undefined names are not checked"
            return {}
        return clues

    def stop(self) -> None:
        """End the processes of a run that was interrupted."""
        self.is_stopped = True
        for process in self.processes:
            process.kill()


def start_search(paths: Sequence[str], given: Mapping[str, bytes]) -> NameSearch:
    """Start ruff on files; `given` are the contents of those that are not read from the disk."""
    search = NameSearch()
    if not paths:
        return search
    program = find_ruff()
    if program is None:
        search.problem = "ruff is not installed, so undefined names are not checked; install it with `pip install ruff`"
        return search
    codes = ",".join((*NAME_CODES, *COMPILER_CODES))
    command = [program, "check", "--isolated", "--no-cache", "--quiet", "--select", codes, "--output-format", "json"]
    alone = {path for path in paths if path in given or not _is_utf_8(path) or is_large_notebook(path)}
    for path in sorted(alone):
        _launch_alone(search, command, path, given)
    for batch in _batches([path for path in paths if path not in alone]):
        _launch(search, [*command, "--"], batch, None)
    return search


def _launch_alone(search: NameSearch, command: Sequence[str], path: str, given: Mapping[str, bytes]) -> None:
    """Give ruff one file through its standard input, under a name that its answer can hold."""
    try:
        content = _in_utf_8(path, given[path] if path in given else load_bytes(path))
        if content is not None and path.endswith(".ipynb"):
            content = without_outputs(content.decode("utf-8")).encode("utf-8")
    except (UnreadableError, TooManyValuesError):
        return
    name = shown(path)
    search.names[os.path.abspath(name)] = os.path.abspath(path)  # noqa: PTH100 - links are kept
    if content is not None:
        _launch(search, [*command, "--stdin-filename", name, "-"], (), content)


def _is_utf_8(path: str) -> bool:
    """Whether a path is text; ruff writes another one as no path that there is."""
    return path.isascii() or not any("\udc80" <= sign <= "\udcff" for sign in path)


def _in_utf_8(path: str, raw: bytes) -> bytes | None:
    """The text of a file as ruff reads it, whatever encoding the file declares; None where it holds no text."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            return read_bytes(path, raw).text.encode("utf-8")
        except (UnreadableError, UnicodeEncodeError):
            return None
    return raw


def _launch(search: NameSearch, command: Sequence[str], paths: Sequence[str], stdin: bytes | None) -> None:
    given = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    words = [*command, *paths]
    try:
        process = subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        search.problem = f"ruff could not be started ({error}), so undefined names are not checked"
        return
    search.processes.append(process)
    reader = Thread(target=_drain, args=(search, process, command, paths, stdin), daemon=True)
    reader.start()
    search.readers.append(reader)


def _drain(
    search: NameSearch,
    process: subprocess.Popen[bytes],
    command: Sequence[str],
    paths: Sequence[str],
    stdin: bytes | None,
) -> None:
    try:
        output, errors = process.communicate(stdin, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    if process.returncode in (0, 1):
        search.outputs.append(output)
    elif search.is_stopped:
        return
    elif len(paths) > 1 and search.spend_retry():
        middle = len(paths) // 2
        for part in (paths[:middle], paths[middle:]):
            _launch(search, command, part, stdin)
    else:
        search.problem = _failure(paths, errors)


def _failure(paths: Sequence[str], errors: bytes) -> str:
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
    where = f" on {shown(paths[0])}" if len(paths) == 1 else ""
    left = " there" if where else ""
    return f"ruff failed{where} ({last[0]}), so undefined names are not checked{left}"


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for path in paths:
        if batch and sum(map(len, batch)) + len(path) > BATCH:
            yield batch
            batch = []
        batch.append(path)
    if batch:
        yield batch


def find_ruff() -> str | None:
    """The ruff of this Python, otherwise the one on the search path, never the project's; or None."""
    beside = Path(sys.executable).parent / ("ruff.exe" if os.name == "nt" else "ruff")
    return str(beside) if beside.is_absolute() and beside.is_file() else find_program("ruff", os.curdir)


def _read_clues(output: bytes) -> Iterator[tuple[str, Clue]]:
    """The clues of an answer; raises LookupError, TypeError or ValueError where it has a form that is not known."""
    answer: Any = json.loads(output or b"[]")  # Any: whatever a ruff of another version writes
    if output and not output.lstrip().startswith(b"["):
        raise TypeError("no list of messages")
    for message in answer:
        if message["code"] in (*NAME_CODES, *COMPILER_CODES):
            yield message["filename"], _clue_of(message)


def _clue_of(message: Any) -> Clue:  # Any: as above
    row, column, end_row, end_column = (
        message[end][axis] for end in ("location", "end_location") for axis in ("row", "column")
    )
    cell = message["cell"]
    if not all(isinstance(number, int) for number in (row, column, end_row, end_column, cell or 0)):
        raise TypeError("a place that is no number")
    return Clue(message["code"], str(message["message"]), cell, row, column, end_row, end_column)
