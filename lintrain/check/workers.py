"""Files read by several processes: the same results in the same order, whatever the schedule."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from lintrain.cache.watch import Accesses, add_accesses, children_report, is_watched, watch_in_child
from lintrain.check.files import FileReader, ReadFile
from lintrain.check.one_file import READER, Reading
from lintrain.check.result import Crash
from lintrain.check.selection import CheckRequest
from lintrain.startup.lazy_dataclass import dataclass

PORTION = 150_000
"""Bytes of code that a process gets at once, at most: a second of reading, more or less."""

SAFE_PATH = "PYTHONSAFEPATH"
THREADS = Path("/proc/self/task")


@dataclass(eq=False)
class Worker:
    """A process that reads, our end of the pipe to it, and the positions of its pending files, in order."""

    process: BaseProcess
    pipe: Connection
    owed: deque[int] = field(default_factory=deque[int])


class Workers:
    """Several processes; each gets the next portion when it is done with one, largest first.

    They start at once: a process may only be forked while no other thread runs. A forked one has loaded the rules.
    """

    def __init__(self, request: CheckRequest, paths: Sequence[str], sizes: Sequence[float], processes: int) -> None:
        _load_before_sharing(request)
        self.request = request
        self.paths = paths
        fair = min(PORTION, sum(sizes) / (4 * processes))
        largest_first = sorted(portions(sizes, fair), key=lambda each: -sum(sizes[position] for position in each))
        self.waiting = deque(list(each) for each in largest_first)
        self.read_files: dict[int, ReadFile] = {}
        self.workers: list[Worker] = []
        try:
            for _ in range(processes):
                self._start()
        except BaseException:
            self.stop()
            raise

    def read(self) -> list[ReadFile]:
        """Every file, in the order of the request; if a process died on one, that is its crash."""
        try:
            for worker in list(self.workers):
                self._feed(worker)
            while self.workers:
                self.request.check_cancelled()
                for pipe in wait([worker.pipe for worker in self.workers]):
                    self._listen(next(worker for worker in self.workers if worker.pipe is pipe))
        finally:
            self.stop()
        return [self.read_files[position] for position in range(len(self.paths))]

    def stop(self) -> None:
        """End all processes at once, whatever they are doing."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
        self.workers.clear()

    def _start(self) -> Worker:
        """One more process: forked where that is safe, for then it has loaded everything."""
        is_safe = sys.platform == "linux" and _has_one_thread()
        context = multiprocessing.get_context("fork") if is_safe else multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        inherited = [ours, *(worker.pipe for worker in self.workers)] if is_safe else []
        process = context.Process(
            target=work, args=(for_workers(self.request), theirs, inherited, is_watched()), daemon=True
        )
        with children_report(), _safe_path():
            process.start()
        theirs.close()
        worker = Worker(process, ours)
        self.workers.append(worker)
        return worker

    def _feed(self, worker: Worker) -> None:
        """Give a process its next portion, or let it exit."""
        if not self.waiting:
            self._part_from(worker)
            return
        worker.owed.extend(self.waiting.popleft())
        try:
            worker.pipe.send([self.paths[position] for position in worker.owed])
        except OSError:
            self._mourn(worker)

    def _listen(self, worker: Worker) -> None:
        """Receive the result of a process, or notice that it has exited."""
        try:
            read, accesses = cast(tuple[ReadFile, Accesses | None], worker.pipe.recv())
        except (EOFError, OSError):
            self._mourn(worker)
            return
        add_accesses(accesses)
        self.read_files[worker.owed.popleft()] = read
        self.request.on_progress(len(self.read_files), len(self.paths))
        if not worker.owed:
            self._feed(worker)

    def _mourn(self, worker: Worker) -> None:
        """Name the file that a process died on; others read the rest of its portion, a new one if it was the last."""
        self._part_from(worker)
        position = worker.owed.popleft()
        ending = _ending(worker.process.exitcode)
        crash = Crash(self.paths[position], READER, f"the process that read it {ending}")
        self.read_files[position] = ReadFile(self.paths[position], Reading(crashes=(crash,)))
        if worker.owed:
            self.waiting.appendleft(list(worker.owed))
        if self.waiting and not self.workers:
            self._feed(self._start())

    def _part_from(self, worker: Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.join()


def portions(sizes: Sequence[float], most: float) -> Iterator[range]:
    """The positions of the files in runs of neighbours, which share their modules; a large file is one by itself."""
    start, held = 0, 0.0
    for position, size in enumerate(sizes):
        if position > start and held + size > most:
            yield range(start, position)
            start, held = position, 0.0
        held += size
    if start < len(sizes):
        yield range(start, len(sizes))


def _load_before_sharing(request: CheckRequest) -> None:
    """Load what every process needs, once: the reader, and the rules that are asked."""
    import_module("lintrain.read").load()
    selections = [each.selection for each in request.by_folder.all(request.files)] if request.by_folder else []
    names = request.selection.names.union(*(selection.names for selection in selections))
    for rule in request.rules:
        if rule.name in names and rule.reads_text:
            _ = rule.rule


@contextmanager
def _safe_path() -> Generator[None]:
    """What starts meanwhile imports nothing from the working folder: Python puts that first for a new process."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _has_one_thread() -> bool:
    """Whether no other thread may hold a lock that a forked process would wait for."""
    try:
        return sum(1 for _ in THREADS.iterdir()) == 1
    except OSError:
        return False


def _ending(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code is None or code >= 0:
        return f"ended with {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}{', as it is when memory runs out' if name == 'SIGKILL' else ''}"


def for_workers(request: CheckRequest) -> CheckRequest:
    """The part of a request that a process needs: all but what is done with the results."""
    plain = CheckRequest(request.files, request.rules, request.selection, request.find_targets)
    return replace(
        plain,
        given=request.given,
        packages=request.packages,
        by_folder=request.by_folder,
        is_timed=request.is_timed,
    )


def work(request: CheckRequest, pipe: Connection, inherited: Sequence[Connection], is_recorded: bool = False) -> None:
    """Read the files that come through the pipe until it ends; the parent handles Ctrl-C and ends us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in inherited:
        each.close()  # the parent's ends of all pipes: while we held them, none of us would notice its death
    watch = watch_in_child() if is_recorded else None
    reader = FileReader(request)
    try:
        while True:
            for path in cast(list[str], pipe.recv()):
                read = read_or_tell(reader, path)
                pipe.send((read, watch.take() if watch else None))
    except (EOFError, OSError):
        return
    finally:
        if request.packages:
            request.packages.end()


def read_or_tell(reader: FileReader, path: str) -> ReadFile:
    """The result of a file, or that reading it failed."""
    try:
        return reader.read(path)
    except Exception as error:  # noqa: BLE001 - what fails on one file is reported, and the others are still read
        return ReadFile(path, Reading(crashes=(Crash(path, READER, f"{type(error).__name__}: {error}"),)))
