"""A schedule that Accelerate steps once per process is as long as the batches of one process.

In `prepare` the loader is divided among the processes, and the schedule gets a step of its own for each of them. A
length taken before `prepare` counts all batches, which fits; a length taken afterwards is too short by the number of
processes, and the learning rate reaches its end, mostly 0, when 1/N of the training is done. One process shows
nothing.

## Bad

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    steps = len(train_loader) * epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, steps)  # <- multiplied-scheduler-steps
    scheduler = accelerator.prepare(scheduler)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            scheduler.step()

## Good

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    steps = len(train_loader) * epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, steps * accelerator.num_processes)
    scheduler = accelerator.prepare(scheduler)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            scheduler.step()

The length may be taken before `prepare` as well, which comes to the same:

    accelerator = Accelerator(cpu=True)
    steps = len(train_loader) * epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, steps)
    net, optimizer, train_loader, scheduler = accelerator.prepare(net, optimizer, train_loader, scheduler)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            scheduler.step()

## When it is fine

The number of processes may be part of the length:

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    steps = len(train_loader) * epochs * accelerator.num_processes
    scheduler = accelerator.prepare(get_linear_schedule_with_warmup(optimizer, 0, steps))
    for x, y in train_loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()
        scheduler.step()

A schedule that is not prepared steps once, and one that is not tied to the optimizer too:

    accelerator = Accelerator(cpu=True, step_scheduler_with_optimizer=False)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    scheduler = accelerator.prepare(get_linear_schedule_with_warmup(optimizer, 0, len(train_loader) * epochs))
    for x, y in train_loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()
        scheduler.step()

## Fix

Asks first: on one process nothing changes, on several the learning rate of every step does. A warm-up that is counted
in the same steps becomes longer with the rest.

## References

accelerate#2318, accelerate#2926, accelerate#1398, accelerate#662; transformers#24088; Accelerate documentation,
`AcceleratedScheduler`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import lr_schedules, script_text
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.counts import Count
from lintrain.pipeline.values.model import Launcher, Scheduler
from lintrain.pipeline.values.python import Value, is_missing, literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes
from lintrain.source import parsing

OTHER_WAYS = ("split_batches", "step_scheduler_with_optimizer", "dataloader_config")
"""Arguments of Accelerator that change how many steps a prepared schedule takes."""


TOO_SHORT = 0.75
"""The share of its rounds on one process that a schedule of several has too few of: 1/N where it is cut, else 1."""


class MultipliedSchedulerSteps(Rule):
    level = Level.WARNING
    keywords = "prepare & sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        shared = [event for event in pipeline.acts(Act.SHARE) if _multiplies(event)]
        if not shared or script_text.mentions(pipeline, "num_processes|world_size"):
            return
        for event in shared:
            length = lr_schedules.length_of(event.subject) if isinstance(event.subject, Scheduler) else None
            count = length.value if length else None
            if length is None or not isinstance(count, Count):
                continue
            divided = [each for each in shared if each.subject is count.of and each.order < count.made_at]
            if divided:
                yield self.finding(
                    length.location,
                    "the schedule counts the batches of one process, but steps for all of them",
                    related=[
                        Related(divided[0].location, "the loader is divided here", "loader"),
                        Related(event.location, "from here on it steps once per process", "schedule"),
                        *_warmup(event.subject),
                    ],
                    help="take the length before `prepare`, or multiply it by `accelerator.num_processes`",
                    facts={"steps": length.text, "launcher": _owner(pipeline, divided[0].location, length.location)},
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop, ranks = evidence.loop, evidence.ranks
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        batches = (loop.loader.batches if loop.loader else None), ranks.batches[0]
        pairs = [
            (alone.length, shared.length, shared.steps_per_update)
            for alone, shared in zip(loop.schedules, ranks.schedules, strict=False)
            if alone.name == shared.name and alone.length and shared.length
        ]
        if len(pairs) != 1 or not all(batches):
            return Verdict.inconclusive(
                f"of {len(ranks.schedules)} schedules that made steps {len(pairs)} say when they end"
            )
        (alone, shared, pace), (all_batches, own) = pairs[0], batches
        if not pace:
            return Verdict.inconclusive(f"the schedule took 0 steps between {ranks.steps} of the optimizer")
        rounds = alone / (all_batches or 1), shared / (pace * (own or 1))
        text = (
            f"its {shared} steps, {pace} for each of {own} batches, last {rounds[1]:.3g} rounds on {ranks.processes} "
            f"processes; {alone} steps last {rounds[0]:.3g} rounds on 1"
        )
        return (Verdict.confirmed if rounds[1] < TOO_SHORT * rounds[0] else Verdict.refuted)(
            text, steps_per_update=pace
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        launcher, steps = str(finding.facts.get("launcher") or ""), str(finding.facts.get("steps") or "")
        if not launcher or not steps:
            return None
        counted = [(finding.location, steps), *((each.location, each.text) for each in finding.with_role("warm-up"))]
        edits = [fixes.Replace(location, _times(code, launcher)) for location, code in counted]
        return fixes.Fix.of(f"multiply it by `{launcher}.num_processes`", *edits, safe=False)


def _warmup(scheduler: Value) -> list[Related]:
    """Where a warm-up is counted in steps of the schedule, if it has one."""
    warmup = scheduler.given.get("num_warmup_steps") if isinstance(scheduler, Scheduler) else None
    if warmup is None or literal(warmup.value) == 0:
        return []
    return [Related(warmup.location, "the warm-up counts the same steps", "warm-up", warmup.text)]


def _owner(pipeline: Pipeline, call: Location, length: Location) -> str:
    """The name of what `prepare` is called on, empty where it is no name that is known where the length is given."""
    name = pipeline.code(call).partition(".prepare(")[0]
    return name if name.replace(".", "_").isidentifier() and blocks.is_one_scope(pipeline, call, length) else ""


def _times(code: str, launcher: str) -> str:
    """A number multiplied by the processes of an Accelerator."""
    node = parsing.expression_of(f"({code})")
    is_plain = isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call)
    return f"{code if is_plain else f'({code})'} * {launcher}.num_processes"


def _multiplies(event: Event) -> bool:
    """Whether an Accelerator takes an object in, and steps its schedules once per process."""
    launcher = event.details.get("launcher")
    if not isinstance(launcher, Launcher) or not launcher.path.startswith("accelerate.") or launcher.is_open:
        return False
    return all(name not in launcher.arguments or is_missing(launcher.arguments[name]) for name in OTHER_WAYS)
