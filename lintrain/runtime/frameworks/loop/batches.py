"""The batches of a loader as the script takes them, and where they end early."""

from __future__ import annotations

import dis
import inspect
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from lintrain.runtime.child.frames import callers_frame, is_users

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.loop.watch import Watch

FOR = dis.opmap["FOR_ITER"]


class WatchedBatches:
    """An iterator over a loader's batches that reports each to the watch, and ends when the watch has seen enough."""

    def __init__(self, watch: Watch, loader: Any, batches: Iterator[Any]) -> None:
        self._watch = watch
        self._loader = loader
        self._batches = batches
        self._taken = 0

    def __iter__(self) -> WatchedBatches:
        return self

    def __next__(self) -> Any:
        timed = self._watch.loaders.timed
        timed.on_batch_request(self._loader)
        has_enough = self._watch.has_enough(self._loader, self._taken)
        if has_enough and self._watch.is_between and not is_asked_by_a_loop():
            has_enough = False  # the measured loop goes on until the script comes to the next one
        if has_enough and (is_asked_by_a_loop() or not self._watch.gives_more(self._loader)):
            last = self._watch.lone_row(self._loader) if is_asked_by_a_loop() else None
            if last is not None:
                self._watch.on_batch_request(self._loader)
                self._watch.on_batch(self._loader, last)
                return last
            self._watch.on_early_end(self._loader, self._taken, can_end=is_asked_by_a_loop())
            raise StopIteration
        # Before `next`: an error in the data set or collator is one of the batch stage.
        self._watch.on_batch_request(self._loader)
        try:
            batch = next(self._batches)
        except StopIteration:
            self._watch.on_loader_end(self._loader)
            raise
        batch = self._watch.given_batch_for(batch)
        # Counted after the batch is there: a loader that raises gave none.
        self._taken += 1
        timed.on_batch(self._loader)
        self._watch.on_batch(self._loader, batch)
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


LEAST_BEFORE = 8
"""Batches that a loop before the training gets at least: one that keeps them trains on the first of them."""
SECONDS_BEFORE, LONGEST_BEFORE = 10.0, 60.0
"""A pass that took longer ends early, unless all of it takes no longer than the second number: of CPU time."""


def before_training(watch: Watch, batches: Iterator[Any], count: float) -> Iterator[Any]:
    """The `count` batches that a script reads before its first backward pass; of rows that were made, a part is enough.

    A script that encodes every image of a data set first would not come to its training on a CPU.
    """
    began = time.process_time()
    for number, batch in enumerate(batches, 1):
        yield batch
        spent = time.process_time() - began
        # A script may keep a result for each row and need all of them: a pass that is short enough ends by itself.
        is_long = number >= LEAST_BEFORE and spent > SECONDS_BEFORE and spent / number * count > LONGEST_BEFORE
        # Here the next batch is asked for: `next` would not expect the end.
        if is_long and watch.run is None and is_asked_by_a_loop():
            watch.session.shorten(f"a loader that is read before the training ended after {number} batches")
            return


def is_asked_by_a_loop() -> bool:
    """Whether a `for` or a library requests the batch: they handle the end of the data, the script's own `next` may
    not.
    """
    frame = callers_frame(2)
    # A library's iterator around the loader (accelerate's) hands the end of the data on to whoever asks it.
    while frame is not None and not is_users(frame.f_code.co_filename) and _hands_on(frame):
        frame = frame.f_back
    if frame is None or not is_users(frame.f_code.co_filename):
        return True
    # The bytecode tells the two apart: a `for` asks with FOR_ITER, a call of `next` does not. A `for` takes the end
    # of the data without an error.
    return frame.f_code.co_code[frame.f_lasti] == FOR


def _hands_on(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) or frame.f_code.co_name == "__next__"
