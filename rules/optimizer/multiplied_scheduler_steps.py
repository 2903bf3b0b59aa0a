"""The length of a schedule that Accelerate steps once per process is counted for a single process.

`prepare` distributes the batches of a loader over the N processes, and a prepared schedule takes N steps per optimizer
step. A length computed before `prepare` counts all batches and is correct. A length computed afterwards is too short by
a factor of N: the learning rate reaches its final value, usually 0, after 1/N of the training. With a single process,
everything works.

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

Computing the length before `prepare` has the same effect:

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

The length may include the number of processes:

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    steps = len(train_loader) * epochs * accelerator.num_processes
    scheduler = accelerator.prepare(get_linear_schedule_with_warmup(optimizer, 0, steps))
    for x, y in train_loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()
        scheduler.step()

A schedule that is not prepared takes single steps, and so does one that is not tied to the optimizer:

    accelerator = Accelerator(cpu=True, step_scheduler_with_optimizer=False)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    scheduler = accelerator.prepare(get_linear_schedule_with_warmup(optimizer, 0, len(train_loader) * epochs))
    for x, y in train_loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()
        scheduler.step()

## Fix

Asks first: with several processes, the learning rate of every step changes. A warmup that is counted in the same steps
becomes longer as well.

## References

accelerate#2318, accelerate#2926, accelerate#1398, accelerate#662; transformers#24088; Accelerate documentation,
`AcceleratedScheduler`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, lr_schedules, script_text
from lintrain.pipeline import blocks, events
from lintrain.pipeline.values import model, python, tensors
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

OTHER_WAYS = ("split_batches", "step_scheduler_with_optimizer", "dataloader_config")
"""Arguments of Accelerator that change how many steps a prepared schedule takes."""

TOO_SHORT = 0.75
"""A schedule that covers fewer epochs than this share of those on one process is too short: 1/N, otherwise 1."""


PLAIN = expressions.REFERENCES - {expressions.Kind.SUBSCRIPT} | {expressions.Kind.CONSTANT}
"""Factors of a product that are written without brackets."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the length, and the name of the Accelerator; empty without a fix."""

    length: str
    launcher: str


class MultipliedSchedulerSteps(Rule[Claim]):
    level = Level.WARNING
    keywords = "prepare & sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        shared = [event for event in pipeline.acts(events.Act.SHARE) if _multiplies(event)]
        if not shared or script_text.mentions(pipeline, "num_processes|world_size"):
            return
        for event in shared:
            length = lr_schedules.length_of(event.subject) if isinstance(event.subject, model.Scheduler) else None
            count = length.value if length else None
            if length is None or not isinstance(count, tensors.Count):
                continue
            divided = [each for each in shared if each.subject is count.of and each.order < count.made_at]
            if divided:
                yield self.finding(
                    length.location,
                    "the schedule counts the batches of one process, but steps once per process",
                    related=[
                        Related(divided[0].location, "distributes the batches over the processes", "loader"),
                        Related(event.location, "prepared here, steps once per process", "schedule"),
                        *_warmup(event.subject),
                    ],
                    help="compute the length before `prepare`, or multiply it by `accelerator.num_processes`",
                    claim=Claim(length.text, _owner(pipeline, divided[0].location, length.location)),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        made = [schedule.made_at for schedule in evidence.loop.schedules if schedule.length] if evidence.loop else []
        if evidence.ranks is not None and len(made) == 1 and made[0] is not None:
            yield self.finding(
                made[0],
                "this schedule takes a step for each process, and its length is that of one",
                help="multiply its length by the number of processes",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
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
            return Verdict.inconclusive(f"{len(pairs)} of {len(ranks.schedules)} stepped schedules have a known length")
        (alone, shared, pace), (all_batches, own) = pairs[0], batches
        if not pace:
            return Verdict.inconclusive(f"the schedule took no step in {ranks.steps} optimizer steps")
        epochs = alone / (all_batches or 1), shared / (pace * (own or 1))
        text = (
            f"with {ranks.processes} processes, {shared} steps, {pace} for each of {own} batches, cover "
            f"{epochs[1]:.3g} epochs; with 1 process, {alone} steps cover {epochs[0]:.3g}"
        )
        return (Verdict.confirmed if epochs[1] < TOO_SHORT * epochs[0] else Verdict.refuted)(
            text, steps_per_update=pace
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.launcher or not claim.length:
            return None
        counted = [
            (finding.location, claim.length),
            *((each.location, each.text) for each in finding.with_role("warm-up")),
        ]
        edits = [fixes.Replace(location, _times(code, claim.launcher)) for location, code in counted]
        return fixes.Fix.of(f"multiply the length by `{claim.launcher}.num_processes`", *edits, safe=False)


def _warmup(scheduler: python.Value) -> list[Related]:
    """Where the warmup of a schedule is counted in its steps, if it has one."""
    warmup = scheduler.given.get("num_warmup_steps") if isinstance(scheduler, model.Scheduler) else None
    if warmup is None or python.literal(warmup.value) == 0:
        return []
    return [Related(warmup.location, "the warmup counts the same steps", "warm-up", warmup.text)]


def _owner(pipeline: Pipeline, call: Location, length: Location) -> str:
    """The name that `prepare` is called on; empty if it is not available where the length is computed."""
    name = pipeline.code(call).partition(".prepare(")[0]
    return name if name.replace(".", "_").isidentifier() and blocks.is_one_scope(pipeline, call, length) else ""


def _times(code: str, launcher: str) -> str:
    """The code of a number multiplied by the number of processes."""
    is_plain = expressions.parsed(f"({code})").kind in PLAIN
    return f"{code if is_plain else f'({code})'} * {launcher}.num_processes"


def _multiplies(event: events.Event) -> bool:
    """Whether an Accelerator prepares an object, and steps its schedules once per process."""
    launcher = event.details.get("launcher")
    if not isinstance(launcher, model.Launcher) or not launcher.path.startswith("accelerate.") or launcher.is_open:
        return False
    return all(name not in launcher.arguments or python.is_missing(launcher.arguments[name]) for name in OTHER_WAYS)
