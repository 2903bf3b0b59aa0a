"""One thread that does what takes long, the most urgent first, so that the loop is free to listen."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from queue import PriorityQueue
from typing import TypeVar

Answer = TypeVar("Answer")


class Urgency(IntEnum):
    """What goes first: where somebody waits or types, then what was opened, then what only follows from an edit."""

    NOW = 0
    SOON = 1
    LATER = 2


BETWEEN_COLLECTIONS = 20
"""Jobs between two collections of what they leave: readings hold cycles, some thousand objects each."""


@dataclass(order=True, slots=True)
class _Job:
    urgency: int
    number: int
    work: Callable[[], None] = field(compare=False)


@dataclass(eq=False)
class Worker:
    """The thread: reading scripts shares its caches, so that two at once would be in each other's way."""

    _jobs: PriorityQueue[_Job] = field(default_factory=PriorityQueue["_Job"])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _thread: threading.Thread | None = None

    async def do(self, urgency: Urgency, work: Callable[[], Answer]) -> Answer:
        """The answer of the work; what nobody waits for any more is not begun."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()

        def run() -> None:
            if answer.cancelled():
                return
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is awaited
                _tell(loop, answer, None, error)
            else:
                _tell(loop, answer, value, None)

        self._jobs.put(_Job(urgency, next(self._numbers), run))
        self._start()
        return await answer

    def _start(self) -> None:
        if self._thread is None:
            # A daemon, so that a client that leaves does not wait for the work.
            self._thread = threading.Thread(target=self._work, name="lintrain-check", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        done = 0
        while True:
            self._jobs.get().work()
            done += 1
            if done >= BETWEEN_COLLECTIONS and self._jobs.empty():
                gc.collect()  # now, when nobody waits, and not in the middle of a check
                done = 0


def _tell(
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
