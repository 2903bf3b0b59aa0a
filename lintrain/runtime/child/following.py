"""Which training calls of a script were measured: after one the script may continue to the next, within bounds.

A call is known by its line and by how often that line was reached, so that a script that runs again with repairs does
not measure a call twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from lintrain.model.location import Location

MOST_CALLS = 8
LEAST_SECONDS = 20.0
"""For all calls after the first, however short that one was."""
Key = tuple[Location | None, int]


class Following:
    """The calls of one process; `number` is that of the present one, from 1 on.

    `is_between` holds after a measured call until the next one is reached: the script continues there on what a
    shortened training returned, and what it does with that is not judged.
    """

    def __init__(self) -> None:
        self.number = 1
        self.is_between = False
        self._seen: Counter[Location | None] = Counter()
        self._measured: set[Key] = set()
        self._present: Key = (None, 0)
        self._began = time.monotonic()
        self._first_took = 0.0

    def enter(self, call: Location | None) -> bool:
        """A call is reached; whether it is new, so that it is to be measured."""
        self._seen[call] += 1
        self._present = (call, self._seen[call])
        self.is_between = False
        return self._present not in self._measured

    # A script with 40 folds would otherwise take 40 probes. The first call pays for the imports, so twice its time is
    # what a user who waited for it may expect.
    def has_room(self) -> bool:
        """Whether there is time for another call: together they take no longer than the first one and its imports."""
        return self.number < MOST_CALLS and self._left() > 0

    def leave(self, on_end: Callable[[], None]) -> None:
        """The present call was measured and the script continues; `on_end` is called if it takes too long."""
        if self.number == 1:
            self._first_took = time.monotonic() - self._began
        self._measured.add(self._present)
        self.number += 1
        self.is_between = True
        # A timer and no check at the next call: a script may compute for an hour between two trainings,
        # and then no call comes.
        timer = threading.Timer(max(self._left(), 1.0), self._end_between, (self.number, on_end))
        timer.daemon = True
        timer.start()

    def _end_between(self, number: int, on_end: Callable[[], None]) -> None:
        # The timer of an earlier call may fire after the next one was reached; its number shows that it is out of date.
        if self.is_between and self.number == number:
            on_end()

    def _left(self) -> float:
        if self.number == 1:
            return LEAST_SECONDS
        return max(LEAST_SECONDS, self._first_took) - (time.monotonic() - self._began - self._first_took)

    def start_over(self, *, measures_again: bool) -> None:
        """The script begins again; the calls that it has come through are not measured again unless asked."""
        self._seen.clear()
        self.is_between, self.number = False, 1
        if measures_again:
            self._measured.clear()


KEYS = "'_IncompatibleKeys' object"
"""What `load_state_dict` returns, in the place of a model."""


def is_about_names(error: BaseException) -> bool:
    """Whether an error is about a name or an argument, which no value of a shortened training can cause."""
    # After a shortened training, an error about values (an empty history, a loss of None) may be ours. One about a name
    # would come after a full training as well.
    if isinstance(error, TypeError):
        return "unexpected keyword argument" in str(error) or KEYS in str(error)
    if isinstance(error, AttributeError):
        return KEYS in str(error)
    # An unbound local variable depends on the branches that ran, and a shortened training takes fewer of them.
    return isinstance(error, NameError | ImportError) and not isinstance(error, UnboundLocalError)


def is_main_thread() -> bool:
    """Whether this is the thread that runs the script's own lines."""
    return threading.current_thread() is threading.main_thread()
