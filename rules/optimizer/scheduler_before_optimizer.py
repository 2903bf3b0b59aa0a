"""The scheduler steps before the optimizer, so the first learning rate is never used.

A scheduler sets the learning rate for the next optimizer step. If the scheduler steps first, the first learning rate is
skipped, and every later one applies one step too early. PyTorch warns once and continues.

## Bad

    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        scheduler.step()  # <- scheduler-before-optimizer
        optimizer.step()

At the start of an epoch, the learning rate of the first epoch is skipped:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(epochs):
        scheduler.step()  # <- scheduler-before-optimizer
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Good

    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        scheduler.step()

Step after all batches of the epoch:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

## When it is fine

The first epoch may be excluded:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(epochs):
        if epoch > 0:
            scheduler.step()
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

If the optimizer has stepped before, the first learning rate has been used:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    optimizer.step()
    for epoch in range(epochs):
        scheduler.step()
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

With a gradient scaler, the order is the same, but PyTorch may warn when the scaler skips a step:

    scaler = torch.amp.GradScaler("cpu")
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for x, y in train_loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()

## Fix

Safe: PyTorch warns that this order skips the first learning rate.

## References

pytorch#44511; RAFT#104; Lightning#21339; transformers#11106; PyTorch documentation, "How to adjust learning rate".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lr_schedules, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Unknown, options_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the scheduler's step, None without a fix."""

    code: str | None


class SchedulerBeforeOptimizer(Rule[Claim]):
    level = Level.WARNING
    keywords = "sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found = set[Location]()
        for scheduler in pipeline.schedulers:
            steps = lr_schedules.steps_of(pipeline, scheduler)
            later = _first_step_after(pipeline, scheduler, steps[0]) if len(steps) == 1 else None
            if later is None or "last_epoch" in scheduler.given or not scheduler.is_complete:
                continue
            # A schedule that is chosen in a branch steps where the others would.
            if steps[0].location not in found:
                found.add(steps[0].location)
                yield self._report(pipeline, steps[0], later)
        for step, later in _in_a_piece(pipeline):
            yield self._report(pipeline, step, later)

    def _report(self, pipeline: Pipeline, step: Event, later: Event) -> Finding[Claim]:
        code, optimizer = pipeline.code(step.location), pipeline.code(later.location)
        both = blocks.are_in_one_body(pipeline, step.location, later.location)
        return self.finding(
            step.location,
            f"`{code}` runs before `{optimizer}`, which skips a learning rate",
            related=[Related(later.location, "the optimizer steps here", "step", optimizer)],
            help=f"call it after `{optimizer}`",
            claim=Claim(code if both else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for schedule in evidence.loop.schedules if evidence.loop else ():
            if schedule.stepped_at is not None and schedule.steps_before_optimizer:
                yield self.finding(
                    schedule.stepped_at,
                    f"`{schedule.name}` is stepped before the optimizer, which skips a learning rate",
                    help="step it after the optimizer",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        early = [schedule for schedule in loop.schedules if schedule.steps_before_optimizer]
        if early and loop.steps:
            text = f"`{early[0].name}` took {early[0].steps_before_optimizer} steps before the first optimizer step"
            return Verdict.confirmed(text, steps_before_optimizer=early[0].steps_before_optimizer)
        if any(schedule.steps for schedule in loop.schedules):
            return Verdict.refuted(f"the optimizer stepped before each of {len(loop.schedules)} schedules")
        return Verdict.inconclusive(f"none of {len(loop.schedules)} schedules stepped in the part of the loop that ran")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        (later,) = finding.with_role("step")
        edits = fixes.Replace(finding.location, later.text), fixes.Replace(later.location, code)
        return fixes.Fix.of("step the optimizer first", *edits, safe=True)


def _in_a_piece(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """In a piece of a script, the one step of a schedule that is made elsewhere, before each of the optimizer's."""
    scheduled = pipeline.acts(Act.SCHEDULER_STEP) if pipeline.source.is_partial and not pipeline.schedulers else ()
    steps = pipeline.acts(Act.STEP)
    if len(scheduled) != 1 or not steps or not scheduled[0].loops or scheduled[0].conditions:
        return
    around = scheduled[0].loops[-1]
    are_after = all(each.is_inside(around) and each.order > scheduled[0].order for each in steps)
    is_certain = all(training_loops.is_certain_step(each) for each in steps) and not steps[0].conditions
    if are_after and is_certain and lr_schedules.takes_no_argument(scheduled[0]):
        yield scheduled[0], steps[0]


def _first_step_after(pipeline: Pipeline, scheduler: Scheduler, step: Event) -> Event | None:
    """The optimizer's first step, if it certainly follows the scheduler's step in every iteration."""
    trained = scheduler.optimizer
    if not step.loops or not lr_schedules.takes_no_argument(step) or not isinstance(trained, Optimizer | Unknown):
        return None
    # Unknown code that gets the optimizer before the loop, such as a schedule of a class not seen here, steps nothing.
    events = [
        each
        for each in pipeline.acts(Act.STEP, Act.ESCAPE)
        if trained in options_of(each.subject) and (each.act is Act.STEP or each.is_inside(step.loops[-1]))
    ]
    if not events or events[0].act is not Act.STEP or not all(each.is_inside(step.loops[-1]) for each in events):
        return None
    first = events[0]
    # Of an optimizer that a function gets, only the name says that it is one.
    if isinstance(trained, Unknown) and not (trained.name and training_loops.is_certain_step(first)):
        return None
    is_certain = not step.is_conditional_in(step.loops[-1]) or step.conditions == first.conditions
    return first if is_certain and first.order > step.order else None
