"""A learning-rate schedule is created but never stepped.

A schedule changes the learning rate only in `step`. Without it, the learning rate keeps its initial value: the peak for
a decay, and 0 for a warmup, with which the model does not learn at all. No error is raised.

The same holds for an optimizer without a schedule, where another one got its schedule besides its own.

## Bad

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)  # <- unstepped-scheduler
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

With a warmup, the learning rate stays at 0:

    scheduler = get_linear_schedule_with_warmup(optimizer, 10, len(train_loader) * epochs)  # <- unstepped-scheduler
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
        print(epoch, scheduler.get_last_lr())

The schedule is an attribute of an object that never steps it:

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

A warmup counts optimizer steps:

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

A schedule may be passed to other code that steps it: a Trainer, another schedule, or a function of the script:

    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=2)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

A constant schedule does not need to be stepped:

    from transformers import get_constant_schedule

    scheduler = get_constant_schedule(optimizer)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Other code may step the schedule of an object:

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

Code that accesses all names of the script may step it:

    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    state = dict(globals())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    state["schedule"].step()

## Fix

Asks first: the learning rate then follows the schedule. Offered for schedules that count optimizer steps; others may
count epochs.

## References

PyTorch documentation, "How to adjust learning rate"; Transformers documentation, "Optimization".
"""

from __future__ import annotations

import ast  # accounts for every node that may use a name or an attribute, by identity and context
from collections.abc import Iterator, Set

from lintrain.analysis import (
    class_bases,
    lightning_manual,
    lightning_modules,
    script_text,
    shared_schedules,
    training_loops,
)
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Instance, Sequence, is_missing, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

READS_ONLY = frozenset({"get_last_lr", "get_lr", "state_dict", "load_state_dict", "last_epoch", "base_lrs"})
"""Attributes of a schedule that do not step it."""

CONSTANT = frozenset({"get_constant_schedule", "ConstantLR"})
"""Schedules whose steps change little or nothing."""

ALL_NAMES = frozenset({"locals", "globals", "vars"})
"""Functions that return all names at once."""


SHARED = "shared"
"""What a finding is about whose schedule is the second one of an optimizer."""
WHY_SHARED = "One optimizer keeps its first rate, and the rate of the other changes twice as fast. No error is raised."


@dataclass(frozen=True, slots=True)
class Claim:
    """The missing call, None without a fix."""

    statement: str | None


class UnsteppedScheduler(Rule[Claim]):
    level = Level.ERROR
    judges_whole_script = True
    keywords = "sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for scheduler, forgotten in lightning_modules.forgotten_schedules(pipeline):
            if scheduler.origin is not None and scheduler.name not in CONSTANT:
                yield self.finding(
                    scheduler.origin,
                    f"`{forgotten}` is not returned, so Lightning never steps it",
                    help=f"return it next to the optimizer: `return [optimizer], [{forgotten}]`",
                )
        yield from one_per_location(map(self._report_manual, lightning_manual.unstepped_schedules(pipeline)))
        yield from one_per_location(self._report_left(*left) for left in _left_out(pipeline))
        if not training_loops.trains_by_hand(pipeline):
            return
        yield from one_per_location(self._report_late(late, step) for late, step in _stepped_after(pipeline))
        yield from one_per_location(map(self._report_shared, shared_schedules.shared_schedules(pipeline)))
        for scheduler in pipeline.schedulers:
            step = _step_of_its_optimizer(pipeline, scheduler)
            if step is None or scheduler.origin is None or _needs_no_step(pipeline, scheduler):
                continue
            name = _only_name(pipeline, scheduler)
            if name is None:
                continue
            yield self.finding(
                scheduler.origin,
                f"`{name}` is never stepped, so the learning rate does not change",
                related=[step],
                help=f"call `{name}.step()` after the optimizer step",
                claim=Claim(f"{name}.step()" if "…" not in name and _counts_steps(pipeline, scheduler, step) else None),
            )

    def _report_shared(self, shared: shared_schedules.SharedSchedule) -> Finding[Claim]:
        is_short = len(shared.optimizer) + len(shared.other) < 30
        return self.finding(
            shared.location,
            f"no schedule gets `{shared.other}`, and this is the second of `{shared.optimizer}`"
            if is_short
            else "this is the second schedule of its optimizer, and another one has none",
            related=[Related(shared.first, "changes the same rate", "schedule")],
            why=WHY_SHARED,
            help=f"pass `{shared.other}` to it",
            subject=SHARED,
            claim=Claim(None),
        )

    def _report_manual(self, scheduler: Scheduler) -> Finding[Claim]:
        assert scheduler.origin is not None
        return self.finding(
            scheduler.origin,
            f"no code steps this `{scheduler.name}`, and Lightning leaves it to the module",
            help="step what `self.lr_schedulers()` gives, such as in `on_train_epoch_end`",
            claim=Claim(None),
        )

    def _report_left(self, location: Location, name: str, run: TrainerRun) -> Finding[Claim]:
        return self.finding(
            location,
            f"`{name}` is not given to the trainer, which makes a schedule of its own",
            related=[Related(run.construction, "gets only the optimizer", "trainer")],
            help=f"pass both: `optimizers=(…, {name})`",
            subject="optimizers",
            claim=Claim(None),
        )

    def _report_late(self, late: Event, step: Event) -> Finding[Claim]:
        name = training_loops.text_of_event(late) or "the schedule"
        return self.finding(
            late.location,
            f"`{name}` steps only after the training, so the learning rate does not change",
            related=[Related(step.location, "the last steps of its optimizer", "step")],
            help="call it inside the loop",
            claim=Claim(None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop = evidence.loop
        # A call in a branch may come later than the few batches that were followed.
        is_silent = loop is None or evidence.framework == "lightning" or "schedule" in loop.mentions
        schedules = loop.schedules if loop is not None and not is_silent else ()
        for schedule in schedules[:1]:
            is_constant = schedule.length is None and schedule.peak == 0
            if schedule.made_at is not None and not is_constant:
                yield self.finding(
                    schedule.made_at,
                    f"`{schedule.name}` is created but never stepped, so the learning rate stays constant",
                    help="step it after the optimizer, once per batch or once per epoch as it counts",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if finding.subject == SHARED:
            return Verdict.inconclusive(f"which optimizer each of {len(loop.schedules)} schedules has is not measured")
        unstepped = [schedule for schedule in loop.schedules if not schedule.steps]
        if loop.schedules and not unstepped:
            first = loop.schedules[0]
            return Verdict.refuted(
                f"`{first.name}` took {first.steps} steps during {loop.steps} optimizer steps", steps=first.steps
            )
        if unstepped and len(unstepped) == len(loop.schedules) and loop.ended and loop.steps:
            return Verdict.confirmed(
                f"`{unstepped[0].name}` took no step in an epoch of {loop.steps} optimizer steps", steps=0
            )
        return Verdict.inconclusive(
            f"{len(unstepped)} of {len(loop.schedules)} schedules did not step in the part of the loop that ran"
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        steps, statement = finding.with_role("step"), finding.claim.statement if finding.claim else None
        if not steps or statement is None:
            return None
        return fixes.Fix.of(f"insert `{statement}`", fixes.InsertAfter(steps[0].location, statement), safe=False)


def _left_out(pipeline: Pipeline) -> Iterator[tuple[Location, str, TrainerRun]]:
    """The schedules of an optimizer that a trainer gets without one, where nothing else uses them."""
    for run in pipeline.runs:
        pair = run.value("optimizers")
        given = pair.items if isinstance(pair, Sequence) else []
        if len(given) != 2 or not is_missing(given[1]):
            continue
        for scheduler in pipeline.schedulers:
            is_its = any(each is given[0] for each in options_of(scheduler.optimizer))
            if not is_its or scheduler.origin is None or _needs_no_step(pipeline, scheduler):
                continue
            name = _only_name(pipeline, scheduler)
            if name is not None:
                yield scheduler.origin, name, run


def _stepped_after(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """The only steps of schedules that come after all loops in which their optimizers step."""
    late = [event for event in pipeline.acts(Act.SCHEDULER_STEP) if not event.loops and not event.conditions]
    for event in late:
        scheduler = event.subject
        if not isinstance(scheduler, Scheduler) or scheduler.name in CONSTANT:
            continue
        others = [each for each in pipeline.acts(Act.SCHEDULER_STEP) if each.loops or each.order < event.order]
        optimizers = [each for each in options_of(scheduler.optimizer) if isinstance(each, Optimizer)]
        steps = [each for each in pipeline.acts(Act.STEP) if any(each.subject is one for one in optimizers)]
        is_one_run = all(each.loops and each.order < event.order and each.reading == event.reading for each in steps)
        may_be_other = any(each.subject is scheduler or not isinstance(each.subject, Scheduler) for each in others)
        if len(steps) > 0 and is_one_run and not may_be_other and any(len(each.loops) > 1 for each in steps):
            yield event, steps[-1]


def _needs_no_step(pipeline: Pipeline, scheduler: Scheduler) -> bool:
    """Whether a schedule has an effect without steps: it is constant, or created again in a loop."""
    is_repeated = any(scheduler.origin and loop.location.holds(scheduler.origin) for loop in pipeline.loops)
    return is_repeated or scheduler.name in CONSTANT or "last_epoch" in scheduler.given or not scheduler.is_complete


def _step_of_its_optimizer(pipeline: Pipeline, scheduler: Scheduler) -> Related | None:
    """A step of the schedule's optimizer in a loop."""
    for event in pipeline.acts(Act.STEP):
        trained = [each for each in options_of(scheduler.optimizer) if isinstance(each, Optimizer)]
        if event.loops and any(each in options_of(event.subject) for each in trained):
            return Related(event.location, "only the optimizer steps", "step")
    return None


def _only_name(pipeline: Pipeline, scheduler: Scheduler) -> str | None:
    """The name of a schedule, if all files only read or prepare it."""
    names = {binding.name for binding in pipeline.names_of(scheduler)}
    if not names:
        return _only_attribute(pipeline, scheduler) or _only_key(pipeline, scheduler)
    if len(names) != 1:
        return None
    (name,) = names
    spread, handed = blocks.spread_names(pipeline.source, names)
    if len(pipeline.sources) > 1:
        further, across = blocks.handed_to_files(pipeline, spread)
        spread, handed = spread | further, handed | across
    if not spread.isdisjoint(pipeline.cached(_imported_names, None)) or _names_called(pipeline, ALL_NAMES):
        return None
    uses = _names_called(pipeline, spread)
    read_only = pipeline.cached(_read_only, None)
    harmless = _prepared(pipeline, scheduler) | {id(node) for node in handed} | read_only
    is_unused = all(isinstance(node.ctx, ast.Store) or id(node) in harmless for node in uses)
    return name if is_unused else None


def _names_called(pipeline: Pipeline, words: Set[str]) -> list[ast.Name]:
    """The names in all files that are called so."""
    nodes = (node for source in pipeline.sources.values() for node in source.named(*words))
    return [node for node in nodes if isinstance(node, ast.Name)]


def _imported_names(pipeline: Pipeline, _: None) -> frozenset[str]:
    return frozenset(node.name for node in script_text.nodes_of_kind(pipeline, ast.alias))


def _only_attribute(pipeline: Pipeline, scheduler: Scheduler) -> str | None:
    """The attribute of a custom class that holds a schedule, if no file does more than read it."""
    held = _held_by_class(pipeline, scheduler)
    if held is None:
        return None
    owner, name = held
    given_away = [event.subject for event in pipeline.acts(Act.ESCAPE) if isinstance(event.subject, Instance)]
    if not class_bases.is_read_whole(pipeline, owner) or any(value.cls.node is owner for value in given_away):
        return None
    steps = pipeline.acts(Act.STEP)
    # Another script creates the objects of this class, and may step between epochs if it goes through them itself.
    if all(event.uncalled for event in steps) and any(len(event.loops) < 2 for event in steps):
        return None
    read_only = pipeline.cached(_read_only, None)
    for node in script_text.every_node(pipeline):
        match node:
            case ast.Attribute(attr=attr) if attr == "__dict__" or (
                attr == name and not isinstance(node.ctx, ast.Store) and id(node) not in read_only
            ):
                return None
            case ast.Constant(value=value) if value == name:
                return None
            case ast.Name(id="vars" | "getattr"):
                return None
            case _:
                continue
    return f"self.{name}"


def _only_key(pipeline: Pipeline, scheduler: Scheduler) -> str | None:
    """The key under which a dictionary holds a schedule, if no file names it again or goes through dictionaries."""
    if scheduler.origin is None or script_text.mentions(pipeline, r"\.(?:values|items)\(|\*\*\w|\bvars\(|asdict"):
        return None
    source = pipeline.source_of(scheduler.origin)
    found: str | None = None
    for node in source.nodes_of(ast.Assign, ast.Dict):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name() as held, slice=key)], value=made):
                pairs, held_by = [(key, made)], held.id
            case ast.Dict(keys=keys, values=values):
                pairs, held_by = [(key, made) for key, made in zip(keys, values, strict=True) if key is not None], "…"
            case _:
                continue
        for key, made in pairs:
            if source.location(made) == scheduler.origin and isinstance(key, ast.Constant):
                named = [each for each in script_text.nodes_of_kind(pipeline, ast.Constant) if each.value == key.value]
                found = f"{held_by}[{key.value!r}]".replace("'", '"') if len(named) == 1 else None
    return found


def _held_by_class(pipeline: Pipeline, scheduler: Scheduler) -> tuple[ast.ClassDef, str] | None:
    """The class that assigns a new schedule to an attribute of `self`, and the name of the attribute."""
    location = scheduler.origin
    if location is None:
        return None
    source = pipeline.source_of(location)
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=own), attr=name)], value=created):
                if source.location(created) == location:
                    owner = _class_of(pipeline, location, own)
                    return (owner, name) if owner else None
            case _:
                continue
    return None


def _class_of(pipeline: Pipeline, location: Location, own: str) -> ast.ClassDef | None:
    """The class of the object that a name holds: `self` in a method, or in a function that only one method calls."""
    source = pipeline.source_of(location)
    *_, (_, called) = blocks.way_out(pipeline, location)[:2]
    given = [node for node, names in source.cached(blocks.handed_on).items() if names == (own,) and node.id == "self"]
    if not any(called.holds(source.location(node)) for node in given) if called != location else own != "self":
        return None
    around = [owner for owner in source.nodes_of(ast.ClassDef) if source.location(owner).holds(called)]
    return around[-1] if around else None


def _read_only(pipeline: Pipeline, _: None) -> set[int]:
    """The nodes of which only harmless attributes are read."""
    nodes = (node for node in script_text.nodes_of_kind(pipeline, ast.Attribute) if node.attr in READS_ONLY)
    return {id(node.value) for node in nodes}


def _prepared(pipeline: Pipeline, scheduler: Scheduler) -> set[int]:
    """The arguments of calls in which Accelerate or Fabric prepares a schedule; neither steps it.

    What an attribute keeps of them may be stepped by its name: `self.optimizer, self.schedule = prepare(…)`.
    """
    locations = {event.location for event in pipeline.acts(Act.SHARE) if event.subject is scheduler}
    sources = pipeline.sources.values() if locations else ()
    calls = [node for source in sources for node in source.nodes_of(ast.Call) if source.location(node) in locations]
    kept = {id(node.value): node for source in sources for node in source.nodes_of(ast.Assign)} if calls else {}
    return {id(each) for call in calls if not _keeps_used(pipeline, kept.get(id(call))) for each in call.args}


def _keeps_used(pipeline: Pipeline, kept: ast.Assign | None) -> bool:
    """Whether a schedule among the targets of an assignment is an attribute that a file uses."""
    targets = [part for target in kept.targets for part in ast.walk(target)] if kept is not None else []
    names = {each.attr for each in targets if isinstance(each, ast.Attribute) and SCHEDULE.search(each.attr)}
    read_only = pipeline.cached(_read_only, None)
    used = (node for node in script_text.nodes_of_kind(pipeline, ast.Attribute) if node.attr in names)
    return bool(names) and any(isinstance(each.ctx, ast.Load) and id(each) not in read_only for each in used)


SCHEDULE = lazy_pattern(r"(?i)sched|lr")
"""Names of attributes for schedules."""


def _counts_steps(pipeline: Pipeline, scheduler: Scheduler, step: Related) -> bool:
    """Whether a schedule certainly counts steps, and its name is available at the only optimizer step."""
    steps = [event for event in pipeline.acts(Act.STEP) if event.loops]
    is_stepwise = STEPWISE.fullmatch(scheduler.name) is not None
    is_alone = len({event.location for event in steps}) == 1 and len(pipeline.schedulers) == 1
    return (
        is_stepwise
        and is_alone
        and scheduler.origin is not None
        and blocks.is_one_scope(pipeline, scheduler.origin, step.location)
    )


STEPWISE = lazy_pattern(r"get_\w+_schedule_with_warmup|get_scheduler|OneCycleLR")
"""Schedules that count optimizer steps."""
