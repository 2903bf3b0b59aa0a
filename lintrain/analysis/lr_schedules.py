"""Learning-rate schedules: what their length counts, and how often they are stepped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import combinations

from lintrain.analysis import expressions
from lintrain.analysis.loaders import loaders_in
from lintrain.analysis.training_loops import TrainingLoop, training_loops
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Condition, Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import Constant, Range, Sequence, Unknown, Value, is_missing, literal, options_of
from lintrain.pipeline.values.tensors import Count
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LENGTHS = ("num_training_steps", "total_steps", "T_max", "total_iters", "steps_per_epoch", "step_size", "horizon")
"""The parameters that set the length of a schedule; `horizon` is what a function of the script counts up to."""

EPOCHS = lazy_pattern(r"(^|_)(n_?|num_?|max_?|total_?|train_?|nb_?)*epochs?$", re.IGNORECASE)
STEPS = lazy_pattern(r"(^|_)(steps|iters|iterations|batches)$", re.IGNORECASE)
"""Names that show what a number counts."""

OF_SCHEDULE = lazy_pattern(r"(^|_)(lr|decay|sched\w*|anneal\w*|rate|step_?size)(_|$)", re.IGNORECASE)
"""Names of a schedule's own steps, which may be as long as an epoch: `lr_decay_steps`."""

SHARE = lazy_pattern(r"(int\()?(?P<name>[\w.]+) *((//|/|\*) *[\d.]+|- *[\w.]+)\)?")
"""A name divided by or multiplied with a number, or less something of its unit."""

AT_LEAST_ONE = lazy_pattern(r"(?:max\( *1 *,([^,()]+)\)|max\(([^,()]+), *1 *\)|int\(([^,()]+)\))")
"""A count that is kept above 0, or made whole: `max(1, epochs - warmup)`."""

PERIODIC = lazy_pattern(r"\(?(\w+)(?: \+ 1\))? % [\w.]+ == 0")
"""A condition that is true at every n-th value of a counter."""

ACCUMULATED = lazy_pattern(r"accum\w*", re.IGNORECASE)

PROCESSES = r"((\w+\.)*get_world_size\(\)|(\w+\.)*world_size)"
MULTIPLIED = lazy_pattern(rf"\*\s*{PROCESSES}|{PROCESSES}\s*\*")
DIVIDED = lazy_pattern(rf"/\s*\(?[^/+-]*{PROCESSES}")
"""Code that multiplies by the number of processes, and code that divides by it."""

ROWS = lazy_pattern(r"\blen\((?P<rows>[A-Za-z_][\w.]*)\)")
PER_BATCH = lazy_pattern(r"/|batch|accum|world|processes|devices|gpus", re.IGNORECASE)
"""Code that counts rows, and code of what turns their number into one of steps."""

OF_LOADER = lazy_pattern(r"DataLoader\(\s*(?:dataset\s*=\s*)?(?P<rows>[A-Za-z_][\w.]*)\s*[,)]")
"""The code of a loader, with the name of its data set."""

LOADER = lazy_pattern(r"(loader|_dl|batches)\b", re.IGNORECASE)
BY_BATCHES = lazy_pattern(r"range\(.*,.*,[^,]*batch_?size[^,]*\)", re.IGNORECASE)
"""Names of loaders, and a range that counts rows by batches: `range(0, len(rows), batch_size)`."""


MOST_STEPS = 32
"""Calls of `step` of schedules that are compared with each other."""


class Unit(StrEnum):
    """What the length of a schedule counts."""

    BATCHES = "batches"
    EPOCHS = "epochs"
    UNKNOWN = "unknown"


LENGTH_OF_LOADER = lazy_pattern(r"(?:int\()?len\((?:\w+\.)*\w*(?i:loader)s?(?:\(\))?\)\)?")
"""The number of batches of a loader that is not followed, by its name."""


def length_of(scheduler: Scheduler) -> Argument | None:
    """The argument that sets the number of steps of a schedule."""
    return next((scheduler.given[name] for name in LENGTHS if name in scheduler.given), None)


def unit_of(argument: Argument) -> Unit:
    """What a number counts, according to its value or its name."""
    options = options_of(argument.value)
    if all(isinstance(option, Count) for option in options):
        return Unit.BATCHES
    if all(isinstance(option, Unknown) for option in options) and LENGTH_OF_LOADER.fullmatch(argument.text):
        return Unit.BATCHES
    name = _last_name(argument)
    if any(isinstance(option, Count) for option in options) or not name:
        return Unit.UNKNOWN
    if EPOCHS.search(name) and "per" not in name.split("_"):
        return Unit.EPOCHS
    is_open = all(isinstance(option, Unknown) for option in options)
    is_of_schedule = "epoch" in name or OF_SCHEDULE.search(name) is not None
    return Unit.BATCHES if is_open and STEPS.search(name) and not is_of_schedule else Unit.UNKNOWN


def _last_name(argument: Argument) -> str:
    """The last part of a dotted name, also of a share of it (`epochs // 2`); empty for other expressions."""
    limited = AT_LEAST_ONE.fullmatch(argument.text)
    text = next(filter(None, limited.groups())).strip() if limited else argument.text
    share = SHARE.fullmatch(text)
    parts = (share["name"] if share else text).split(".")
    return parts[-1] if all(part.isidentifier() for part in parts) else ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a schedule steps: on every batch of a training loop, or once per iteration of the loop around it."""

    step: Event
    training: TrainingLoop
    per_batch: bool

    @property
    def epochs(self) -> Loop | None:
        """The loop around the loop over batches, None if there is none."""
        return _repeating(self.training)

    @property
    def loader(self) -> Loader | None:
        """The loader of the batches, None if it is unknown."""
        return loader_of(self.training.loop)

    @property
    def epoch_count(self) -> int | None:
        """The number of iterations of the loop around the batches, None unless its range is literal."""
        over = self.epochs.over if self.epochs else None
        if isinstance(over, Range) and is_missing(over.step):
            # Of a long range only the bounds are known.
            start, stop = 0 if is_missing(over.start) else literal(over.start), literal(over.stop)
            return max(stop - start, 0) if isinstance(start, int) and isinstance(stop, int) else None
        return len(over.items) if isinstance(over, Sequence) and over.is_complete else None


def pace_of(pipeline: Pipeline, scheduler: Scheduler) -> Pace | None:
    """How often a schedule certainly steps; None if it is unknown or differs between its steps."""
    steps = steps_of(pipeline, scheduler)
    paces = [pace for step in steps for pace in (_pace(pipeline, step),) if pace]
    if not paces or len(paces) != len(steps) or len({pace.per_batch for pace in paces}) > 1:
        return None
    return paces[0]


def double_pace(pipeline: Pipeline, scheduler: Scheduler) -> tuple[Pace, Pace] | None:
    """The paces of a schedule that steps on every batch, and again once per epoch; None if it is not certain."""
    paces = [pace for step in steps_of(pipeline, scheduler) for pace in (_pace(pipeline, step),) if pace]
    by_batch = next((pace for pace in paces if pace.per_batch), None)
    by_epoch = next((pace for pace in paces if not pace.per_batch), None)
    if by_batch is None or by_epoch is None or by_batch.training.loop is not by_epoch.training.loop:
        return None
    return by_batch, by_epoch


def steps_in_two_places(pipeline: Pipeline) -> Iterator[tuple[Event, Event, bool]]:
    """Two steps of one schedule in every iteration of a loop that trains, the later one last.

    With whether the first is on every batch and the second once per epoch.
    """
    steps = [step for step in pipeline.acts(Act.SCHEDULER_STEP) if step.loops and takes_no_argument(step)]
    for first, second in combinations(steps[:MOST_STEPS], 2):
        is_same = first.subject is second.subject and first.location != second.location
        if not is_same or first.reading != second.reading or first.conditions != second.conditions:
            continue
        updates = [each for each in pipeline.acts(Act.STEP) if each.loops[: len(second.loops)] == second.loops]
        between = [each for each in updates if first.order < each.order < second.order]
        if first.loops == second.loops and updates and not between:
            yield first, second, False
            continue
        inner, outer = (first, second) if len(first.loops) > len(second.loops) else (second, first)
        if inner.loops[:-1] == outer.loops and any(each.loops == inner.loops for each in pipeline.acts(Act.STEP)):
            yield inner, outer, True


def pace_of_updates(pipeline: Pipeline, scheduler: Scheduler) -> tuple[Pace, int] | None:
    """The pace of a schedule that steps with an optimizer that accumulates gradients, and the batches per update.

    None unless both certainly step under the same condition, such as `number % 4 == 0`, in the loop over batches.
    """
    steps = steps_of(pipeline, scheduler)
    if len(steps) != 1 or not steps[0].loops or not takes_no_argument(steps[0]):
        return None
    step, loop = steps[0], steps[0].loops[-1]
    inner = [condition for condition in step.conditions if condition.depth >= len(step.loops)]
    batches = _batches_of_update(pipeline, loop, inner[0]) if len(inner) == 1 else None
    for training in training_loops(pipeline) if batches and is_over_batches(pipeline, loop) else ():
        if training.loop is loop and any(update.conditions == step.conditions for update in training.steps):
            return (Pace(step, training, True), batches) if batches else None
    return None


def pace_with_optimizer(pipeline: Pipeline, scheduler: Scheduler) -> Pace | None:
    """The pace of a schedule that steps with the optimizer in a loop over batches, after some of them or after each.

    None unless the condition of both is about accumulated batches: `(step + 1) % accumulation_steps == 0`.
    """
    steps = steps_of(pipeline, scheduler)
    if len(steps) != 1 or not steps[0].loops or not takes_no_argument(steps[0]):
        return None
    step, loop = steps[0], steps[0].loops[-1]
    if not any(ACCUMULATED.search(each.code) for each in step.conditions) or not is_over_batches(pipeline, loop):
        return None
    loops = (training for training in training_loops(pipeline) if training.loop is loop)
    found = (each for each in loops if any(update.conditions == step.conditions for update in each.steps))
    return next((Pace(step, training, True) for training in found), None)


def processes_in(pipeline: Pipeline, length: Argument) -> Location | None:
    """Where the number of processes multiplies the length of a schedule: in its argument, or where that is assigned."""
    if MULTIPLIED.search(length.text):
        return length.location
    found = (each for each in _assigned(pipeline, length) if MULTIPLIED.search(each.value.code))
    return next((each.location for each in found if not DIVIDED.search(each.value.code)), None)


def _assigned(pipeline: Pipeline, length: Argument) -> list[expressions.Assignment]:
    """The assignments to the name that a length is given by."""
    if not length.text.isidentifier():
        return []
    assignments = expressions.assignments_in_file(pipeline.source_of(length.location))
    return [each for each in assignments if any(target.code == length.text for target in each.targets)]


def rows_in(pipeline: Pipeline, scheduler: Scheduler) -> Location | None:
    """Where a length counts the rows of the training data, although each step of its schedule takes a batch of them."""
    length = length_of(scheduler)
    if length is None or "epoch" in length.text.partition("(")[0]:
        return None
    code, location = length.text, length.location
    assigned = _assigned(pipeline, length)
    if len(assigned) == 1:
        code, location = assigned[0].value.code, assigned[0].location
    counted = ROWS.findall(code)
    if len(counted) != 1 or PER_BATCH.search(code):
        return None
    return location if counted[0] in _batched_rows(pipeline, scheduler) else None


def _batched_rows(pipeline: Pipeline, scheduler: Scheduler) -> set[str]:
    """The code of the data sets of which a schedule steps once per batch of several rows."""
    found = set[str]()
    for run in pipeline.runs:
        pair, rows = run.value("optimizers"), run.arguments.get("train_dataset")
        is_its = isinstance(pair, Sequence) and any(each is scheduler for each in pair.items)
        is_single = run.settings is not None and literal(run.settings.value("per_device_train_batch_size")) == 1
        if is_its and rows is not None and not is_single:
            found.add(rows.text)
    pace = pace_of(pipeline, scheduler)
    loader = pace.loader if pace is not None and pace.per_batch else None
    size = literal(loader.value("batch_size")) if loader is not None else None
    if loader is not None and isinstance(size, int) and size > 1 and (named := OF_LOADER.search(loader.text)):
        found.add(named["rows"])
    return found


def _batches_of_update(pipeline: Pipeline, loop: Loop, condition: Condition) -> int | None:
    """The literal n of a condition that is true in every n-th iteration of a loop: it divides the loop's counter."""
    found = PERIODIC.fullmatch(condition.code)
    head = pipeline.code(loop.location).partition("\n")[0]
    if found is None or re.match(rf"for\s+\(?{found[1]}\b", head) is None:
        return None
    number = literal(condition.period)
    return number if isinstance(number, int) and number > 1 else None


def steps_of(pipeline: Pipeline, scheduler: Scheduler) -> list[Event]:
    """The events in which a schedule certainly or possibly steps."""
    return pipeline.cached(_steps_by_option, pipeline).get(id(scheduler), [])


def _steps_by_option(pipeline: Pipeline, _: Pipeline) -> dict[int, list[Event]]:
    """The steps of each value that may be a schedule, by its identity."""
    found = dict[int, list[Event]]()
    for event in pipeline.acts(Act.SCHEDULER_STEP):
        for option in {id(option): option for option in options_of(event.subject)}:
            found.setdefault(option, []).append(event)
    return found


def takes_no_argument(step: Event) -> bool:
    """Whether a scheduler step has no argument, neither an epoch nor a metric."""
    argument = step.details.get("has_argument")
    return isinstance(argument, Constant) and argument.value is False


METRIC = lazy_pattern(r"(^|[_.])(loss(es)?|acc|accuracy|score|metric|f1|auc|mse|mae|rmse)(\.item\(\))?$", re.IGNORECASE)
"""Code of a value that is no number of an epoch: `val_loss`, `self.best_acc`, `loss.item()`."""


CHOOSES = lazy_pattern(r"isinstance|plateau|type\(|sched", re.IGNORECASE)
"""A test which schedule it is."""


def metrics_as_epochs(pipeline: Pipeline) -> Iterator[tuple[Event, Scheduler, str]]:
    """The steps that give a loss to a schedule that watches none, each with the schedule and the code of the loss."""
    subjects: dict[Location, list[Value]] = {}
    for step in pipeline.acts(Act.SCHEDULER_STEP):
        subjects.setdefault(step.location, []).extend(options_of(step.subject))
    for step in pipeline.acts(Act.SCHEDULER_STEP):
        given, schedule = step.details.get("watched"), step.subject
        # Where one call steps several schedules, or a test chooses this step, another schedule may watch the loss.
        is_chosen = any(CHOOSES.search(each.code) for each in step.conditions)
        if isinstance(given, Constant) and isinstance(schedule, Scheduler) and not is_chosen:
            metric, counts = str(given.value), all(map(_counts_epochs, subjects[step.location]))
            if counts and METRIC.search(_summed(metric)):
                yield step, schedule, metric


def _counts_epochs(value: Value) -> bool:
    if not isinstance(value, Scheduler) or value.name == "ReduceLROnPlateau":
        return False
    return value.path.startswith("torch.optim.lr_scheduler.")


def _summed(code: str) -> str:
    """The code of what a mean is made of: `total_loss` of `total_loss / len(loader)`."""
    code = code.partition(" / ")[0]
    return code[len("np.mean(") : -1] if code.startswith("np.mean(") else code


def _pace(pipeline: Pipeline, step: Event) -> Pace | None:
    if not step.loops or not takes_no_argument(step):
        return None
    for training in training_loops(pipeline):
        if not is_over_batches(pipeline, training.loop):
            continue
        together = step.conditions == training.backward.conditions
        if step.loops[-1] is training.loop and (together or not step.is_conditional_in(training.loop)):
            return Pace(step, training, True)
        epochs = _repeating(training)
        is_between = (
            any(step.loops[-1] is loop for loop in training.backward.loops) and step.loops[-1] is not training.loop
        )
        if epochs is not None and is_between and step.is_inside(epochs) and _runs_each_time(step, training, epochs):
            return Pace(step, training, False)
    return None


def _repeating(training: TrainingLoop) -> Loop | None:
    """The innermost loop around the one over batches that repeats it: one over the names of phases does not."""
    around = training.backward.loops
    position = next(index for index, loop in enumerate(around) if loop is training.loop)
    return next((loop for loop in reversed(around[:position]) if not _names_phases(loop)), None)


def _names_phases(loop: Loop) -> bool:
    """`for phase in ("train", "val")`."""
    items = loop.over.items if isinstance(loop.over, Sequence) and loop.over.is_complete else []
    return bool(items) and all(isinstance(item, Constant) and isinstance(item.value, str) for item in items)


def _runs_each_time(step: Event, training: TrainingLoop, epochs: Loop) -> bool:
    """Whether a step runs once per iteration: under no condition, or that of `backward` in the loop over phases."""
    if step.loops[-1] is epochs:
        return not step.is_conditional_in(epochs)
    trains = {condition.code for condition in training.backward.conditions}
    return {condition.code for condition in step.conditions} <= trains


def is_over_batches(pipeline: Pipeline, loop: Loop) -> bool:
    """Whether a loop iterates over the batches of a loader, according to its value or its name.

    Also where the name is that of a progress bar around the loader, and where a range counts rows by batches of them.
    """
    if loader_of(loop) is not None or "range" in loop.header:
        return loader_of(loop) is not None or BY_BATCHES.search(loop.header) is not None
    names = (option.name for option in options_of(loop.over) if isinstance(option, Unknown))
    return any(LOADER.search(each) for each in (loop.header, *names))


def loader_of(loop: Loop) -> Loader | None:
    """The loader that a loop iterates over, None if it is unknown."""
    return next(loaders_in(loop.each), None)


def counts_epochs(pipeline: Pipeline, loop: Loop) -> bool:
    """Whether the header of a loop mentions epochs: `for epoch in …`, `range(args.epochs)`."""
    head = pipeline.code(loop.location).partition("\n")[0]
    return re.search(r"epoch|\bep\b", head, re.IGNORECASE) is not None
