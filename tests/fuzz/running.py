"""Inputs tried in processes of their own, so that one that kills or hangs its process is named and the others go on."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from tests.fuzz.inputs import Input
from tests.fuzz.trial import BUDGET_SECONDS, Result, budget_of, tried

MOST_MEMORY = 4 * 2**30
"""Bytes of address space that a process may take: an input that wants more fails with a MemoryError."""
WALL_FACTOR = 12
"""Seconds by the clock for one of CPU time, on a busy machine, before a process counts as hung."""
WITH_NAMES = 250
"""Of so many inputs one is given to ruff as well, which is a process of its own."""

Make = Callable[[int], Input]


@dataclass(eq=False)
class Worker:
    """A process that tries inputs, the numbers that it still owes, and when it began with the first of them."""

    process: BaseProcess
    pipe: Connection
    owed: list[int]
    since: float = field(default_factory=time.monotonic)
    is_gone: bool = False


def run(make: Make, count: int, jobs: int, first: int = 0) -> Iterator[tuple[int, Result]]:
    """The result of every input, as they come; none is left out."""
    waiting = [list(range(first + job, first + count, jobs))[::-1] for job in range(jobs)]
    workers = [_start(make, numbers) for numbers in waiting if numbers]
    try:
        while workers:
            ready = wait([worker.pipe for worker in workers], timeout=1.0)
            for worker in list(workers):
                told = _heard(worker) if worker.pipe in ready else _overdue(worker, make)
                if told is None:
                    continue
                yield told
                if worker.is_gone:
                    workers.remove(worker)
                    worker.process.join()
                    if worker.owed:
                        workers.append(_start(make, worker.owed))
                elif not worker.owed:
                    workers.remove(worker)
                    worker.process.join()
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _start(make: Make, numbers: Sequence[int]) -> Worker:
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe(duplex=False)
    process = forking.Process(target=_work, args=(make, list(numbers), theirs), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours, list(numbers))


def _work(make: Make, numbers: list[int], pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.RLIM_INFINITY))
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # about as a check has it
    while numbers:
        number = numbers.pop()
        pipe.send(tried(make(number), form=number, with_names=number % WITH_NAMES == 0))


def _heard(worker: Worker) -> tuple[int, Result] | None:
    """The next result of a process; where it died, that is the result."""
    number = worker.owed.pop()
    worker.since = time.monotonic()
    try:
        return number, cast(Result, worker.pipe.recv())
    except (EOFError, OSError):
        worker.process.join()
        worker.is_gone = True
        return number, Result(faults=(f"the process ended with {worker.process.exitcode}",))


def _overdue(worker: Worker, make: Make) -> tuple[int, Result] | None:
    """The result of an input that no signal ends; the process is ended."""
    waited = time.monotonic() - worker.since
    if waited < WALL_FACTOR * BUDGET_SECONDS or waited < WALL_FACTOR * budget_of(make(worker.owed[-1])):
        return None
    worker.process.kill()
    worker.process.join()
    worker.is_gone = True
    return worker.owed.pop(), Result(faults=(f"no answer within {waited:.0f} s",))
