"""A script that is long in coming to its training: it starts again, with few rows in everything that was made.

How many rows a script needs is in its text or in its errors. How long it works on each of them before it trains shows
only in a run: a loop over all of them, an evaluation of the model as it was, an index of their embeddings.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time

from lintrain.runtime.child.going_on import TooSlowError
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.stand_ins.corrections import Corrections

PATIENCE = 40.0
"""Seconds from the first rows that were made to the training call: most scripts need a few of them."""
POLL = 0.5


class Watchdog:
    """Interrupts the script once, in the thread that runs it."""

    def __init__(self, session: ProbeSession, corrections: Corrections) -> None:
        self._session, self._corrections = session, corrections
        self._thread = 0
        corrections.on_rows = self.start

    def start(self) -> None:
        """Begin to wait; called in the script's own thread, when the first rows are made."""
        is_first = not self._thread and self._session.may_start_over
        if is_first and threading.current_thread() is threading.main_thread():
            self._thread = threading.get_ident()
            # A daemon, since a script that ends by itself must not wait for it.
            threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        ends = time.monotonic() + PATIENCE
        attempt = self._session.started
        while time.monotonic() < ends:
            time.sleep(POLL)
            if self._session.started != attempt:  # another correction came first, whose run has its own time
                ends, attempt = time.monotonic() + PATIENCE, self._session.started
            if self._session.has_ended or self._session.has_reached_training:
                return
        if not self._session.measuring and not sys.is_finalizing():
            interrupt(self._thread)


def interrupt(thread: int) -> None:
    """Raise `TooSlowError` in a thread, at its next line of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooSlowError))
