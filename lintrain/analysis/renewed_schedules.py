"""Schedules that each iteration of a loop makes again, so that none of them gets past its first steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import lr_schedules
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Unknown, literal, options_of
from lintrain.startup.lazy_dataclass import dataclass

WITHOUT_COUNT = frozenset({"ExponentialLR", "MultiplicativeLR", "ConstantLR"})
"""Schedules whose step changes the rate that the optimizer has, however many steps there were."""

OF_LIBRARIES = ("torch.", "transformers.", "diffusers.")

RESTARTS = "last_epoch"
"""The argument by which a schedule goes on with an earlier one."""


@dataclass(frozen=True, slots=True)
class RenewedSchedule:
    """A schedule that a loop makes in each iteration: where, its name, the loop, and its only step."""

    location: Location
    name: str
    loop: Loop
    step: Location


def renewed_schedules(pipeline: Pipeline) -> Iterator[RenewedSchedule]:
    """The schedules that a loop makes, and steps once before it makes the next, of an optimizer from before it."""
    for scheduler in pipeline.schedulers:
        loop = _loop_of(pipeline, scheduler)
        if loop is not None and _counts_with(pipeline, scheduler, loop):
            continue
        steps = lr_schedules.steps_of(pipeline, scheduler) if loop is not None else []
        if loop is None or not _goes_on(scheduler, loop) or len({step.location for step in steps}) != 1:
            continue
        (step,) = steps[:1]
        trains = any(event.act is Act.STEP for event in pipeline.events_in(loop))
        if scheduler.origin is not None and step.loops and step.loops[-1] is loop and trains:
            yield RenewedSchedule(scheduler.origin, scheduler.name, loop, step.location)


def _loop_of(pipeline: Pipeline, scheduler: Scheduler) -> Loop | None:
    """The loop that makes a schedule in each of its iterations, as its first one."""
    origin = scheduler.origin
    around = blocks.loop_around(pipeline, origin) if origin is not None else None
    if origin is None or around is None or not _begins_again(scheduler):
        return None
    if not blocks.is_one_scope(pipeline, origin, around):
        return None
    tests = pipeline.source_of(origin).cached(blocks.branches)
    if any(around.holds(test) and test.holds(origin) for test in tests):
        return None
    return next((loop for loop in pipeline.loops if loop.location == around and not loop.runs_once), None)


def _begins_again(scheduler: Scheduler) -> bool:
    """Whether a new schedule of this kind is at its first step, and its second one is not all that it does."""
    size = scheduler.given.get("step_size")
    is_each = size is not None and literal(size.value) == 1
    return (
        scheduler.name not in WITHOUT_COUNT
        and RESTARTS not in scheduler.given
        and scheduler.is_complete
        and not is_each
    )


def _counts_with(pipeline: Pipeline, scheduler: Scheduler, loop: Loop) -> bool:
    """Whether a schedule is of the script's own, or gets a number that changes with each iteration."""
    head = pipeline.code(loop.location).partition("\n")[0]
    changed = {*loop.rebound, *re.findall(r"\w+", head.partition(" in ")[0])}
    given = {name for each in scheduler.given.values() for name in re.findall(r"\w+", each.text)}
    return not scheduler.path.startswith(OF_LIBRARIES) or not changed.isdisjoint(given)


def _goes_on(scheduler: Scheduler, loop: Loop) -> bool:
    """Whether the optimizer of a schedule is the same one in all iterations of a loop."""
    options = options_of(scheduler.optimizer)
    return bool(options) and all(_is_from_before(each, loop) for each in options)


def _is_from_before(optimizer: object, loop: Loop) -> bool:
    match optimizer:
        case Optimizer(origin=origin):
            return origin is not None and not loop.location.holds(origin)
        case Unknown(name=name):
            root = name.partition(".")[0]
            return root.isidentifier() and root not in loop.rebound
        case _:
            return False
