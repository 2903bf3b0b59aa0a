"""The schedule steps before the optimizer does, so the first learning rate is never used.

A schedule holds the rate of the next step; stepping it first moves on to the second rate before the first was used, and
every rate comes one step too early. PyTorch warns of it once, and goes on.

## Bad

    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        scheduler.step()  # <- scheduler-before-optimizer
        optimizer.step()

At the head of an epoch the same happens with the first epoch's rate:

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

After the epoch, once its batches are done:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

## When it is fine

The first epoch may be left out, and a step that is told its epoch goes by that:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(epochs):
        if epoch > 0:
            scheduler.step()
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

A schedule that was made for a later epoch, or whose optimizer has stepped before, has used its first rate:

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    optimizer.step()
    for epoch in range(epochs):
        scheduler.step()
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

With a scaler the order is the same, though the warning may come when it leaves a step out:

    scaler = torch.amp.GradScaler("cpu")
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for x, y in train_loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()

## Fix

Safe: PyTorch warns that the first rate is skipped in this order.

## References

pytorch#44511; RAFT#104; Lightning#21339; transformers#11106; PyTorch documentation, "How to adjust learning rate".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import lr_schedules, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import options_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes


class SchedulerBeforeOptimizer(Rule):
    level = Level.WARNING
    keywords = "sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        for scheduler in pipeline.schedulers:
            steps = [event for event in pipeline.acts(Act.SCHEDULER_STEP) if event.subject is scheduler]
            later = _first_step_after(pipeline, scheduler, steps[0]) if len(steps) == 1 else None
            if later is not None and "last_epoch" not in scheduler.given and scheduler.is_complete:
                yield self._report(pipeline, steps[0], later)

    def _report(self, pipeline: Pipeline, step: Event, later: Event) -> Finding:
        code, optimizer = pipeline.code(step.location), pipeline.code(later.location)
        both = _are_neighbours(pipeline, step, later)
        return self.finding(
            step.location,
            f"`{code}` runs before `{optimizer}`: one learning rate is lost",
            related=[Related(later.location, "the optimizer steps here", "step", optimizer)],
            help=f"move it behind `{optimizer}`",
            facts={"code": code if both else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        early = [schedule for schedule in loop.schedules if schedule.steps_before_optimizer]
        if early and loop.steps:
            text = f"`{early[0].name}` took {early[0].steps_before_optimizer} steps before the optimizer's first one"
            return Verdict.confirmed(text, steps_before_optimizer=early[0].steps_before_optimizer)
        if any(schedule.steps for schedule in loop.schedules):
            return Verdict.refuted(f"the optimizer stepped before any of {len(loop.schedules)} schedules")
        return Verdict.inconclusive(f"{len(loop.schedules)} schedules took no step as far as the loop was seen")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        (later,) = finding.with_role("step")
        edits = fixes.Replace(finding.location, later.text), fixes.Replace(later.location, code)
        return fixes.Fix.of("step the optimizer first", *edits, safe=True)


def _first_step_after(pipeline: Pipeline, scheduler: Scheduler, step: Event) -> Event | None:
    """The optimizer's first step, if it certainly comes after the schedule's own in every iteration."""
    trained = scheduler.optimizer
    if not step.loops or not lr_schedules.is_untold(step) or not isinstance(trained, Optimizer):
        return None
    events = [each for each in pipeline.acts(Act.STEP, Act.ESCAPE) if trained in options_of(each.subject)]
    if not events or events[0].act is not Act.STEP or not all(each.is_inside(step.loops[-1]) for each in events):
        return None
    first = events[0]
    is_certain = not step.is_conditional_in(step.loops[-1]) or step.conditions == first.conditions
    return first if is_certain and first.order > step.order else None


def _are_neighbours(pipeline: Pipeline, step: Event, later: Event) -> bool:
    """Whether both are statements of one block, so that they can change places."""
    source = pipeline.source_of(step.location)
    blocks: Sequence[ast.For | ast.While | ast.If | ast.With | ast.FunctionDef] = source.nodes_of(
        ast.For, ast.While, ast.If, ast.With, ast.FunctionDef
    )
    for node in blocks:
        statements = [each for each in node.body if isinstance(each, ast.Expr)]
        locations = [source.location(each) for each in statements]
        if step.location in locations and later.location in locations:
            return True
    return False
