"""A bound on the CPU time of a piece of work, which applies whatever the work does.

Rules, helpers and fixes need not check the clock: a thread that sleeps nearly all the time ends them from outside.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

LOOKS_EVERY = 0.2
"""Seconds between two checks of the running work."""

IS_WATCHED = sys.platform != "emscripten"
"""A web page has no threads: it ends a check that takes too long by ending the worker that it runs in."""


class TimeSpentError(BaseException):
    """The work exceeded its CPU time; not an Exception, so that no code handles it as a fault."""


class Clock:
    """Ends the block that it is entered for with TimeSpentError when this thread has spent so many seconds of CPU.

    The end of the block waits for an error that is on its way; nothing is raised after it. Clocks do not nest.
    """

    def __init__(self, seconds: float) -> None:
        self.is_spent = False
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._time = _cpu_time_of(self._thread)
        self._end = 0.0
        self._part: Part | None = None

    def __enter__(self) -> Clock:
        self._end = self._time() + self._seconds
        if IS_WATCHED:
            _watchdog().start(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        is_stopped = not IS_WATCHED
        while True:
            try:
                if not is_stopped:
                    _watchdog().stop(self)
                    is_stopped = True
                if self.is_spent:
                    self._receive()
                return
            except TimeSpentError:
                self.is_spent = True
                if is_stopped:  # this was the last one: the watchdog sends no more
                    return

    @property
    def is_over(self) -> bool:
        """Whether the time of the whole block is over, not only that of a part."""
        return self._time() > self._end

    def begin_part(self, seconds: float | None = None) -> None:
        """Give what follows at most so many seconds of the time that is left; the error ends it alone if it is caught.

        Without a number the part before is over, and only the time of the block counts. The time of a part counts from
        the first look at it, so that the hundreds of parts of a check that take less cost no call of the system.
        """
        self._part = None if seconds is None else Part(seconds)

    def look(self) -> None:
        """End the work if its time is over; called by the watchdog, again and again where code swallowed the error."""
        try:
            now = self._time()
        except OSError:  # the thread is gone, and with it its work
            return
        part = self._part  # the other thread may be at the next one a moment later
        if now > self._end or (part is not None and part.is_over(now)):
            self.is_spent = True
            _raise_in(self._thread, TimeSpentError)

    def _receive(self) -> None:
        """Wait for the error that may be on its way: one more is sent, which takes its place, and arrives at once.

        Python also takes an error back (`PyThreadState_SetAsyncExc` with NULL), but up to 3.12 it then believes for
        ever that one is on its way: each call and each turn of a loop looks for it, and a function that is profiled or
        traced never begins (`eval_breaker` in CPython 3.11's `ceval.c`).
        """
        _raise_in(self._thread, TimeSpentError)
        while True:
            pass


class Part:
    """What may take at most so many seconds of a clock's time, from the first look at it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def is_over(self, now: float) -> bool:
        """Whether its time is over; the first look begins it."""
        if self._until is None:
            self._until = now + self._seconds
        return now > self._until


class Watchdog:
    """The thread that watches the clocks of one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._clocks = dict[Clock, None]()
        self._has_clocks = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lintrain clock", daemon=True)
        self._thread.start()

    def start(self, clock: Clock) -> None:
        """Watch a clock from now on."""
        with self._lock:
            self._clocks[clock] = None
            self._has_clocks.set()

    def stop(self, clock: Clock) -> None:
        """Stop watching it: after this returns, it sends nothing."""
        with self._lock:
            self._clocks.pop(clock, None)

    def _watch(self) -> None:
        while True:
            self._has_clocks.wait()
            time.sleep(LOOKS_EVERY)
            with self._lock:
                for clock in self._clocks:
                    clock.look()
                if not self._clocks:
                    self._has_clocks.clear()


_WATCHDOGS = list[Watchdog]()


def _watchdog() -> Watchdog:
    """The watchdog of this process; a forked one has none of its own yet."""
    if not _WATCHDOGS or _WATCHDOGS[-1].process != os.getpid():
        _WATCHDOGS[:] = [Watchdog()]
    return _WATCHDOGS[-1]


def _cpu_time_of(thread: int) -> Callable[[], float]:
    """The CPU time of a thread; of the whole process if the system does not measure threads."""
    if not IS_WATCHED or not hasattr(time, "pthread_getcpuclockid"):
        return time.process_time
    number = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(number)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
