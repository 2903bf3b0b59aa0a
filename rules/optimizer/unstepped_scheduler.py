"""A learning-rate schedule is made and never stepped.

A schedule changes the learning rate in its `step` alone. Without it the rate stays as it was when the schedule was
made: the peak for a decay, and 0 for a warm-up, so that nothing is learned at all. No error appears.

## Bad

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)  # <- unstepped-scheduler
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

With a warm-up the rate is 0 for ever:

    scheduler = get_linear_schedule_with_warmup(optimizer, 10, len(train_loader) * epochs)  # <- unstepped-scheduler
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
        print(epoch, scheduler.get_last_lr())

An object that keeps it for itself, and never steps it:

    class Training:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())
            self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)  # <- unstepped-scheduler

        def epoch(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.net(x), y).backward()
                self.optimizer.step()

    training = Training(net)
    for epoch in range(epochs):
        training.epoch(train_loader)

## Good

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

A warm-up counts steps of the optimizer:

    scheduler = get_linear_schedule_with_warmup(optimizer, 10, len(train_loader) * epochs)
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            scheduler.step()
        print(epoch, scheduler.get_last_lr())

## When it is fine

A schedule that is handed on is stepped by somebody else: by Trainer, by another schedule, by a function of the script:

    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=2)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

A constant schedule changes nothing when it is stepped:

    from transformers import get_constant_schedule

    scheduler = get_constant_schedule(optimizer)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Where an object keeps it, others may step it:

    class Experiment:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())
            self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

        def epoch(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.net(x), y).backward()
                self.optimizer.step()

    experiment = Experiment(net)
    for epoch in range(epochs):
        experiment.epoch(train_loader)
        experiment.scheduler.step()

Whatever takes all names of the script may step it:

    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = dict(globals())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    state["schedule"].step()

## Fix

Asks first: the learning rate follows the schedule then. Offered for schedules that are planned in steps; others may be
meant for epochs.

## References

PyTorch documentation, "How to adjust learning rate"; Transformers documentation, "Optimization".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import script_text, training_loops
from lintrain.pipeline import blocks, callers
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Instance, options_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

LOOKS = frozenset({"get_last_lr", "get_lr", "state_dict", "load_state_dict", "last_epoch", "base_lrs"})
"""What can be done with a schedule without stepping it."""

CONSTANT = frozenset({"get_constant_schedule", "ConstantLR"})
"""Schedules whose steps change nothing, or little."""


ALL_NAMES = frozenset({"locals", "globals", "vars"})
"""What hands over every name at once."""


class UnsteppedScheduler(Rule):
    level = Level.ERROR
    keywords = "sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        for scheduler in pipeline.schedulers:
            step = _step_of_its_optimizer(pipeline, scheduler)
            if step is None or scheduler.origin is None or _is_made_to_set_the_rate(pipeline, scheduler):
                continue
            name = _only_name(pipeline, scheduler)
            if name is None:
                continue
            yield self.finding(
                scheduler.origin,
                f"`{name}` is never stepped, so the learning rate does not follow it",
                related=[step],
                help=f"call `{name}.step()` after the optimizer's step",
                facts={"statement": f"{name}.step()" if _counts_steps(pipeline, scheduler, step) else None},
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        idle = [schedule for schedule in loop.schedules if not schedule.steps]
        if loop.schedules and not idle:
            first = loop.schedules[0]
            return Verdict.refuted(
                f"`{first.name}` took {first.steps} steps beside {loop.steps} of the optimizer", steps=first.steps
            )
        if idle and len(idle) == len(loop.schedules) and loop.ended and loop.steps:
            return Verdict.confirmed(
                f"`{idle[0].name}` took 0 steps in an epoch with {loop.steps} of the optimizer", steps=0
            )
        return Verdict.inconclusive(
            f"{len(idle)} of {len(loop.schedules)} schedules took no step as far as the loop was seen"
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        steps, statement = finding.with_role("step"), finding.facts.get("statement")
        if not steps or not isinstance(statement, str):
            return None
        return fixes.Fix.of(f"insert `{statement}`", fixes.InsertAfter(steps[0].location, statement), safe=False)


def _is_made_to_set_the_rate(pipeline: Pipeline, scheduler: Scheduler) -> bool:
    """Whether making it is enough: its first rate is the last one, or it is made anew again and again."""
    is_repeated = any(scheduler.origin and loop.location.holds(scheduler.origin) for loop in pipeline.loops)
    return is_repeated or scheduler.name in CONSTANT or "last_epoch" in scheduler.given or not scheduler.is_complete


def _step_of_its_optimizer(pipeline: Pipeline, scheduler: Scheduler) -> Related | None:
    """A step that the optimizer of the schedule takes in a loop, once the schedule is there."""
    for event in pipeline.acts(Act.STEP):
        trained = [each for each in options_of(scheduler.optimizer) if isinstance(each, Optimizer)]
        if event.loops and any(each in options_of(event.subject) for each in trained):
            return Related(event.location, "the optimizer steps alone", "step")
    return None


def _only_name(pipeline: Pipeline, scheduler: Scheduler) -> str | None:
    """The name of a schedule, if nothing is done with it in all files but to look at it and to prepare it."""
    names = {binding.name for binding in pipeline.names_of(scheduler)}
    if not names:
        return _only_attribute(pipeline, scheduler)
    if len(names) != 1:
        return None
    (name,) = names
    spread, handed = callers.spread_names(pipeline.source, names)
    named = pipeline.told(_names_by_text, None)
    if not spread.isdisjoint(pipeline.told(_imported_names, None)) or not ALL_NAMES.isdisjoint(named):
        return None
    uses = [node for each in spread for node in named.get(each, ())]
    looked_at = pipeline.told(_looked_at, None)
    idle = _prepared(pipeline, scheduler) | {id(node) for node in handed}
    is_idle = all(isinstance(node.ctx, ast.Store) or id(node) in idle or id(node) in looked_at for node in uses)
    return name if is_idle else None


def _names_by_text(pipeline: Pipeline, _: None) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in script_text.nodes_of_kind(pipeline, ast.Name):
        found.setdefault(node.id, []).append(node)
    return found


def _imported_names(pipeline: Pipeline, _: None) -> frozenset[str]:
    return frozenset(node.name for node in script_text.nodes_of_kind(pipeline, ast.alias))


def _only_attribute(pipeline: Pipeline, scheduler: Scheduler) -> str | None:
    """The attribute that holds a schedule, if the script's own class sets it and no file reads it but to look at it."""
    kept = _kept_by_a_class(pipeline, scheduler)
    if kept is None:
        return None
    owner, name = kept
    given_away = [event.subject for event in pipeline.acts(Act.ESCAPE) if isinstance(event.subject, Instance)]
    if owner.bases or owner.keywords or any(value.cls.node is owner for value in given_away):
        return None
    if all(event.uncalled for event in pipeline.acts(Act.STEP)):  # another script makes the objects of this class
        return None
    looked_at = pipeline.told(_looked_at, None)
    for node in script_text.every_node(pipeline):
        match node:
            case ast.Attribute(attr=attr) if attr == "__dict__" or (
                attr == name and not isinstance(node.ctx, ast.Store) and id(node) not in looked_at
            ):
                return None
            case ast.Constant(value=value) if value == name:
                return None
            case ast.Name(id="vars" | "getattr"):
                return None
            case _:
                continue
    return f"self.{name}"


def _kept_by_a_class(pipeline: Pipeline, scheduler: Scheduler) -> tuple[ast.ClassDef, str] | None:
    """The class in which a schedule is made right into an attribute of `self`, and the attribute's name."""
    location = scheduler.origin
    if location is None:
        return None
    source = pipeline.source_of(location)
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=own), attr=name)], value=made):
                if source.location(made) == location:
                    owner = _class_of(pipeline, location, own)
                    return (owner, name) if owner else None
            case _:
                continue
    return None


def _class_of(pipeline: Pipeline, location: Location, own: str) -> ast.ClassDef | None:
    """The class whose object a name stands for: `self` in a method, or in a function that only one method calls."""
    source = pipeline.source_of(location)
    *_, (_, called) = callers.way_out(pipeline, location)[:2]
    given = [node for node, names in source.told(callers.handed_on).items() if names == (own,) and node.id == "self"]
    if not any(called.holds(source.location(node)) for node in given) if called != location else own != "self":
        return None
    around = [owner for owner in source.nodes_of(ast.ClassDef) if source.location(owner).holds(called)]
    return around[-1] if around else None


def _looked_at(pipeline: Pipeline, _: None) -> set[int]:
    """The nodes of which only something harmless is read."""
    nodes = (node for node in script_text.nodes_of_kind(pipeline, ast.Attribute) if node.attr in LOOKS)
    return {id(node.value) for node in nodes}


def _prepared(pipeline: Pipeline, scheduler: Scheduler) -> set[int]:
    """The names in the calls in which Accelerate or Fabric prepares a schedule: neither steps it by itself."""
    locations = {event.location for event in pipeline.acts(Act.SHARE) if event.subject is scheduler}
    sources = pipeline.sources.values() if locations else ()
    calls = [node for source in sources for node in source.nodes_of(ast.Call) if source.location(node) in locations]
    return {id(each) for call in calls for each in call.args}


def _counts_steps(pipeline: Pipeline, scheduler: Scheduler, step: Related) -> bool:
    """Whether a schedule is certainly one of steps, and its name is known where the only optimizer steps."""
    steps = [event for event in pipeline.acts(Act.STEP) if event.loops]
    is_of_steps = STEPWISE.fullmatch(scheduler.name) is not None
    is_alone = len({event.location for event in steps}) == 1 and len(pipeline.schedulers) == 1
    return (
        is_of_steps
        and is_alone
        and scheduler.origin is not None
        and blocks.is_one_scope(pipeline, scheduler.origin, step.location)
    )


STEPWISE = lazy_pattern(r"get_\w+_schedule_with_warmup|get_scheduler|OneCycleLR")
"""Schedules that are planned in steps of the optimizer."""
