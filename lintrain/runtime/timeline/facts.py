"""Facts about a pass that follows the first steps, sent by name and compared in the parent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class ScheduleFacts(TypedDict):
    """A learning-rate schedule between two optimizer steps; `length` is its number of steps, where it has an end."""

    name: str
    steps_per_update: int
    length: int | None


class TimelineFacts(TypedDict, total=False):
    """Any of these at a time; a later value replaces an earlier one.

    `framework` is the library that runs the loop; `checkpoint` the path of what was saved; `stopped` why the pass was
    ended early, `failure` the error that ended it. `done`: every step was sent; `left`: the script ended without one.
    Of a rank: `batches` and `dataset_rows` of its training loader, `dataset` a digest of some of its rows, `joined`
    the number of processes, `keeps_apart` the class that lets their weights differ.
    """

    framework: str
    resume_is_asked: bool
    checkpoint: str
    rounds: int
    stopped: str
    done: bool
    left: bool
    failure: str
    batches: int | None
    dataset_rows: int | None
    dataset: str | None
    joined: int
    keeps_apart: str
    schedules: Sequence[ScheduleFacts]
