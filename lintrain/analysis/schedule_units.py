"""In which unit the length of a schedule is counted, and within how many steps its rate vanishes."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lintrain.analysis import iterations, lightning_modules, lr_schedules, script_text
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import FACTORS_AT, Scheduler
from lintrain.pipeline.values.python import UNKNOWN, Range, Sequence, Unknown, Value, is_missing, literal, options_of
from lintrain.pipeline.values.tensors import Count
from lintrain.pipeline.values.training import LightningTrainer
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.loop import LoopEvidence
    from lintrain.evidence.run import Evidence, ScheduleUse

USUAL_FACTOR, HALF, FASTEST = 0.1, 0.5, 0.95
"""The default of `gamma` in torch 2.13; factors that lower a rate to nothing in a few steps, or in a hundred."""

FEW, MANY = 30, 100
"""Numbers of steps that count epochs: few runs have so few batches."""

MUCH_LONGER = 10
"""A schedule of so many times the epochs hardly begins, so it is counted in batches."""

FALL_AT_THE_END = frozenset({"OneCycleLR", "PolynomialLR"})
"""Schedules that rise first, or reach their lowest rate at the end: they make no sense without their end."""

WARM_UPS = frozenset({"LinearLR", "ConstantLR"})
"""Schedules that end early in a run, and others follow."""

LONGER = 1.5
"""A schedule that is longer than the run by this factor does not come to its end."""

FAR = 2
"""A schedule that is longer or shorter than the run by this factor is counted in another unit."""


def is_number_of_epochs(pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace) -> bool:
    """Whether a length is the number of epochs, the iterations of the loop around the batches."""
    if pace.epochs is None or scheduler.name == "OneCycleLR":  # it raises an error: overrun-one-cycle
        return False
    if scheduler.origin is None or pace.epochs.location.holds(scheduler.origin) or has_one_batch(pace):
        return False
    if lr_schedules.unit_of(length) is lr_schedules.Unit.EPOCHS and lr_schedules.counts_epochs(pipeline, pace.epochs):
        return True
    number = literal(length.value)
    # Half a period of a cosine may be as long as the epochs by chance if both are small.
    has_length = "num_training_steps" in scheduler.given or ("T_max" in scheduler.given and pace.per_batch)
    fewest = 1 if "num_training_steps" in scheduler.given else FEWEST
    return has_length and isinstance(number, int) and number >= fewest and pace.epoch_count == number


FEWEST = 10
"""Steps from which on half a period of a cosine is compared with the number of epochs."""

RESTARTS = "restarts"
"""A part of the names of schedules that begin again, which may do so in each epoch."""


def ends_with_first_epoch(pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace) -> bool:
    """Whether a schedule that ends at a rate of 0 is as long as one epoch, and steps in each batch of several."""
    named = " ".join((scheduler.name, *(each.text for each in scheduler.given.values())))
    is_whole = "num_training_steps" in scheduler.given and RESTARTS not in named
    if not is_whole or not pace.per_batch or pace.epochs is None or pace.epochs.runs_once or has_one_batch(pace):
        return False
    if scheduler.origin is None or pace.epochs.location.holds(scheduler.origin):
        return False
    if not lr_schedules.counts_epochs(pipeline, pace.epochs) and (pace.epoch_count or 0) < 2:
        return False
    return all(_is_one_pass(option) for option in options_of(length.value))


def _is_one_pass(count: Value) -> bool:
    return isinstance(count, Count) and count.is_exact and not count.multipliers and not count.divisors


def counts_all_batches(scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace) -> bool:
    """Whether a length is the number of batches of all epochs: `len(loader) * epochs`."""
    if not any(name in scheduler.given for name in WHOLE_RUN) or pace.epochs is None:
        return False
    return all(_is_of_all(option, pace) for option in options_of(length.value))


def batches_of_accelerator(pipeline: Pipeline, scheduler: Scheduler) -> int | None:
    """After how many batches Accelerate steps a schedule that it prepared; None if after each one, or not known.

    Under `accumulate`, the other calls of its `step` do nothing (accelerate 1.0).
    """
    found = iterations.launchers_of(scheduler, pipeline.launchers)
    launcher = found[0] if len(found) == 1 and found[0].is_accelerator else None
    if launcher is None or "step_scheduler_with_optimizer" in launcher.arguments or launcher.is_open:
        return None
    batches = literal(iterations.divisor_of(launcher))
    is_used = script_text.mentions(pipeline, r"\.accumulate\(")
    return batches if isinstance(batches, int) and batches > 1 and is_used else None


WHOLE_RUN = ("num_training_steps", "total_steps", "T_max")
"""Parameters that are as long as the run: a `step_size` may be any part of it."""


def _is_of_all(count: Value, pace: lr_schedules.Pace) -> bool:
    """Whether a count is that of the batches times the epochs; one that is divided may count optimizer steps."""
    if not isinstance(count, Count) or not count.is_exact or count.divisors:
        return False
    # Accelerate steps a prepared schedule once for each process.
    multipliers = [each for each in count.multipliers if not _is_processes(each)]
    if len(multipliers) != 1:
        return False
    (epochs,), over = multipliers, pace.epochs.over if pace.epochs else None
    is_the_same = isinstance(over, Range) and over.stop is epochs and is_missing(over.start) and is_missing(over.step)
    return is_the_same or (pace.epoch_count is not None and literal(epochs) == pace.epoch_count)


def has_steps_of_epochs(scheduler: Scheduler) -> bool:
    """Whether a schedule is as long as a number of epochs with more than one step each: both are given."""
    given = scheduler.given
    are_given = {"epochs", "steps_per_epoch"} <= given.keys() and "total_steps" not in given
    return are_given and literal(given["steps_per_epoch"].value) != 1


def counts_batches(pipeline: Pipeline, configured: lightning_modules.Configured, length: Argument) -> bool:
    """Whether a number is far larger than the epochs of every Trainer that may fit the module."""
    number = literal(length.value)
    trainers = [fit.trainer for fit in pipeline.lightning_fits]
    epochs = [
        literal(trainer.arguments.get("max_epochs", UNKNOWN)) if isinstance(trainer, LightningTrainer) else None
        for trainer in trainers
    ]
    known = [count for count in epochs if isinstance(count, int) and count > 0]
    is_known = isinstance(number, int) and bool(known) and len(known) == len(epochs)
    ends = configured.scheduler.name in FALL_AT_THE_END or "num_training_steps" in configured.scheduler.given
    return isinstance(number, int) and is_known and ends and number >= MUCH_LONGER * max(known)


EPOCHS_ALONE = lazy_pattern(r"(?<!per_)epochs?\W*$", re.IGNORECASE)
BATCHES_OF_ONE = lazy_pattern(r"len\(|loader|batches|(?:step|iter|iteration)s_?(?:per_?)?epoch", re.IGNORECASE)


def is_product(pipeline: Pipeline, length: Argument) -> bool:
    """Whether a length is the batches of an epoch times the epochs: `steps_per_epoch * epochs`, also by a name."""
    codes = [length.text]
    for node in pipeline.source_of(length.location).nodes_of(ast.Assign):
        codes.extend(unparse(node.value) for target in node.targets if unparse(target) == length.text)
    for factors in (code.split(" * ") for code in codes):
        epochs = [each for each in factors if EPOCHS_ALONE.search(each) and not BATCHES_OF_ONE.search(each)]
        if epochs and any(BATCHES_OF_ONE.search(each) for each in factors):
            return True
    return False


def multiplied(pipeline: Pipeline, scheduler: Scheduler, length: Argument) -> Location | None:
    """Where a length counts the steps of all processes, though the script itself steps once per update in each."""
    steps = lr_schedules.steps_of(pipeline, scheduler)
    if not steps or (pipeline.launchers and not _is_left_out(pipeline, scheduler)):
        return None  # Accelerate steps a prepared schedule once for each process
    if any("num_processes" in loop.header for step in steps for loop in step.loops):
        return None
    count = length.value
    if isinstance(count, Count) and any(map(_is_processes, count.multipliers)):
        return None if any(map(_is_processes, count.divisors)) else length.location
    return lr_schedules.processes_in(pipeline, length)


def _is_processes(factor: Value) -> bool:
    """Whether a factor is the number of an Accelerator's processes."""
    return isinstance(factor, Unknown) and factor.name == "launcher.num_processes"


def _is_left_out(pipeline: Pipeline, scheduler: Scheduler) -> bool:
    """Whether accelerators prepare other things, but certainly not this schedule."""
    if any(event.subject is scheduler for event in pipeline.acts(Act.ESCAPE)):
        return False
    return all(
        each.is_accelerator
        and not each.is_open
        and bool(each.prepared)
        and not any(value is scheduler or (isinstance(value, Unknown) and not value.name) for value in each.prepared)
        for each in pipeline.launchers
    )


def fall(scheduler: Scheduler, epochs: int) -> tuple[Argument, str] | None:
    """The argument by which a rate vanishes within some hundred steps, or within as many as the run has epochs."""
    given = scheduler.given
    factor = literal(given["gamma"].value) if "gamma" in given else USUAL_FACTOR
    if not isinstance(factor, int | float) or not scheduler.is_complete:
        return None
    if scheduler.name == "ExponentialLR" and "gamma" in given and factor <= FASTEST:
        return given["gamma"], f"by {factor} on every batch"
    if scheduler.name == "StepLR" and "step_size" in given and factor <= HALF:
        steps = literal(given["step_size"].value)
        return (
            (given["step_size"], f"every {steps} batches")
            if isinstance(steps, int) and steps <= max(FEW, epochs // 2)
            else None
        )
    if scheduler.name == "MultiStepLR" and "milestones" in given and factor <= HALF:
        steps = _last_milestone(given["milestones"])
        return (
            (given["milestones"], f"for good after {steps} batches") if steps and steps <= max(MANY, epochs) else None
        )
    if scheduler.name == "LambdaLR" and scheduler.factors and "lr_lambda" in given:
        rest = _left_after_many(scheduler.factors)
        return None if rest is None else (given["lr_lambda"], f"to {rest:.1g} of itself in {MANY} batches")
    return None


def _left_after_many(factors: tuple[float, ...]) -> float | None:
    """What is left of a rate that only falls, and vanishes, in a hundred steps; None if it does not."""
    early = factors[: FACTORS_AT.index(MANY) + 1]
    falls = early[0] > 0 and all(before >= after for before, after in pairwise(early))
    rest = early[-1] / early[0] if falls else 1
    return rest if rest <= FASTEST**MANY else None


def _last_milestone(milestones: Argument) -> int | None:
    value = milestones.value
    items = value.items if isinstance(value, Sequence) and value.is_complete else []
    last = literal(items[-1]) if items else None
    return last if isinstance(last, int) else None


def has_one_batch(pace: lr_schedules.Pace) -> bool:
    """Whether all rows are in one batch, so that batches are epochs."""
    loader = pace.loader
    return loader is not None and "batch_size=len(" in loader.text.replace(" ", "")


def measured(schedules: tuple[ScheduleUse, ...]) -> ScheduleUse | None:
    """The first schedule that was stepped and that ends with the run; a warm-up ends before."""
    return next((each for each in schedules if each.steps and each.length and each.name not in WARM_UPS), None)


def judged_by_updates(loop: LoopEvidence, schedule: ScheduleUse, batches: int) -> Verdict:
    """The verdict on a schedule that is as long as all batches, and may step more rarely."""
    steps, length = schedule.steps_while_training, schedule.length or 0
    if not loop.rounds_planned or not steps:
        return Verdict.inconclusive(f"`{schedule.name}` was stepped {steps} times in {loop.batches} batches")
    planned = round(steps / loop.batches * batches * loop.rounds_planned)
    text = f"`{schedule.name}` has {length} steps, and the run takes some {planned} of them"
    outcome = Verdict.confirmed if length >= LONGER * planned else Verdict.refuted
    return outcome(text, length=length, planned=planned)


def is_of_other_unit(evidence: Evidence) -> bool:
    """Whether the length of a schedule of Lightning is the number of what it is not stepped with."""
    length, interval = evidence.arguments.get("schedule_length"), evidence.arguments.get("schedule_interval")
    steps, epochs = evidence.arguments.get("planned_steps"), evidence.arguments.get("planned_epochs")
    if not isinstance(length, int) or not isinstance(steps, int) or not isinstance(epochs, int):
        return False
    own, other = (epochs, steps) if interval == "epoch" else (steps, epochs)
    return length == other and max(own, other) >= FAR * min(own, other)


NOTHING_LEFT = 1e-6
"""A share of the highest rate."""


def spent_in_an_epoch(evidence: Evidence) -> str:
    """How a schedule of Lightning that counts each batch uses up its rate in the first of several epochs; "" if not."""
    steps, epochs = evidence.arguments.get("planned_steps"), evidence.arguments.get("planned_epochs")
    schedule = evidence.schedule
    if schedule is None or not isinstance(steps, int) or not isinstance(epochs, int):
        return ""
    if evidence.arguments.get("schedule_interval") != "step" or epochs < 2 or schedule.highest <= 0:
        return ""
    later = [rate for step, rate in schedule.rates if step >= steps / epochs > schedule.highest_at]
    if not later or max(later) > NOTHING_LEFT * schedule.highest:
        return ""
    text = f"the rate is {schedule.highest:.3g} at step {schedule.highest_at + 1} and {max(later):.3g} at most after"
    return f"{text} the first of {epochs} epochs"


def judged_with_lightning(evidence: Evidence) -> Verdict:
    """The verdict on a schedule of Lightning, which knows the planned length of the run."""
    if spent := spent_in_an_epoch(evidence):
        return Verdict.confirmed(spent)
    length, interval = evidence.arguments.get("schedule_length"), evidence.arguments.get("schedule_interval")
    times = evidence.arguments.get("planned_epochs" if interval == "epoch" else "planned_steps")
    if not isinstance(length, int) or not isinstance(times, int):
        return Verdict.inconclusive(f"the length of the schedule ({length}) or of the run ({times}) is unknown")
    text = f"the schedule has {length} steps, and Lightning takes {times} of them, one per {interval}"
    is_far = max(length, times) >= FAR * min(length, times)
    return (
        Verdict.confirmed(text, length=length, times=times)
        if is_far
        else Verdict.refuted(text, length=length, times=times)
    )
