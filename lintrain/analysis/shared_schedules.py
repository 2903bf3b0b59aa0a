"""Two schedules of one kind for the same optimizer, next to an optimizer that has none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from lintrain.analysis import lr_schedules
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import options_of
from lintrain.startup.lazy_dataclass import dataclass

MOST = 12
"""Schedules of a script that are compared with each other."""


@dataclass(frozen=True, slots=True)
class SharedSchedule:
    """A second schedule of an optimizer: where, where the first is, and the names of this optimizer and the other."""

    location: Location
    first: Location
    optimizer: str
    other: str


def shared_schedules(pipeline: Pipeline) -> Iterator[SharedSchedule]:
    """The schedules that change an optimizer's rate as another one does, where one more optimizer has no schedule."""
    stepped = [each for each in pipeline.schedulers[:MOST] if lr_schedules.steps_of(pipeline, each)]
    for first, second in combinations(stepped, 2):
        shared = _only(first)
        if shared is None or _only(second) is not shared or not _are_alike(first, second):
            continue
        others = [each for each in pipeline.optimizers if each is not shared and _is_left_alone(pipeline, each)]
        names = [_name(pipeline, each) for each in (shared, *others)]
        if first.origin is None or second.origin is None or len(names) != 2 or not all(names):
            continue
        if first.origin != second.origin and blocks.is_one_scope(pipeline, first.origin, second.origin):
            yield SharedSchedule(second.origin, first.origin, *names)


def _only(scheduler: Scheduler) -> Optimizer | None:
    options = options_of(scheduler.optimizer)
    return options[0] if len(options) == 1 and isinstance(options[0], Optimizer) else None


def _are_alike(first: Scheduler, second: Scheduler) -> bool:
    """Whether two schedules are of one kind: a warm-up and a decay may well share an optimizer."""
    return first.path == second.path and first.given.keys() == second.given.keys()


def _is_left_alone(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether an optimizer steps, and no schedule gets it."""
    steps = any(optimizer in options_of(event.subject) for event in pipeline.acts(Act.STEP))
    return steps and not any(optimizer in options_of(each.optimizer) for each in pipeline.schedulers)


def _name(pipeline: Pipeline, optimizer: Optimizer) -> str:
    return next((binding.name for binding in pipeline.names_of(optimizer)), "")
