"""A worker thread for long jobs, the most urgent first, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable
from dataclasses import field
from enum import IntEnum
from queue import Empty, PriorityQueue
from typing import TypeVar

from lintrain.startup.lazy_dataclass import dataclass

Answer = TypeVar("Answer")


class Urgency(IntEnum):
    """The order of jobs: requests and edits, then opened documents, then documents that depend on an edit."""

    NOW = 0
    SOON = 1
    LATER = 2


BREATH = 0.005
"""Idle seconds before garbage is collected: results of checks contain large reference cycles."""

MOST_LEFT = 10
"""Jobs in a row before garbage is collected, which takes about ten milliseconds per job."""


@dataclass(order=True, slots=True)
class _Job:
    urgency: int
    number: int
    work: Callable[[], None] = field(compare=False)


@dataclass(eq=False)
class Worker:
    """The worker thread; there is one, since checks share caches that are not thread-safe."""

    _jobs: PriorityQueue[_Job] = field(default_factory=PriorityQueue["_Job"])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _thread: threading.Thread | None = None
    _has_collected: bool = False

    async def do(self, urgency: Urgency, work: Callable[[], Answer]) -> Answer:
        """Run a job and return its result; a cancelled job is not started."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()

        def run() -> None:
            if answer.cancelled():
                return
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is awaited
                _set_result(loop, answer, None, error)
            else:
                _set_result(loop, answer, value, None)

        self._jobs.put(_Job(urgency, next(self._numbers), run))
        self._start()
        return await answer

    def _start(self) -> None:
        if self._thread is None:
            # A daemon, so that the exit does not wait for the job.
            self._thread = threading.Thread(target=self._work, name="lintrain-check", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        left = 0
        while True:
            try:
                job = self._jobs.get(timeout=BREATH if left else None) if left < MOST_LEFT else None
            except Empty:
                job = None
            if job is None:
                self._collect()
                left = 0
            else:
                job.work()
                left += 1

    def _collect(self) -> None:
        gc.collect()
        if not self._has_collected:
            gc.freeze()  # the rules and tables that the first job loaded stay, so later collections skip them
            self._has_collected = True


def _set_result(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Answer],
    value: Answer | None,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if answer.cancelled():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type] # the work's answer, which may be None itself

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
