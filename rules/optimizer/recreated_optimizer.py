"""Each epoch creates a new optimizer for the same model.

Adam and SGD with momentum keep averages of the gradients. A new optimizer starts without them, so each epoch begins
like the first one, and a schedule of the old optimizer has no effect. No error is raised.

A schedule that each epoch creates counts from 0 again: its rate never changes, whatever its length.

## Bad

    for epoch in range(3):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)  # <- recreated-optimizer
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Good

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## When it is fine

A new model for each fold, a rate that depends on the epoch, and an optimizer that keeps nothing:

    for fold in range(2):
        head = nn.Linear(8, 3)
        optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(head(x), y).backward()
                optimizer.step()

    for epoch in range(2):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3 / (epoch + 1))
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

    for epoch in range(2):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Fix

None: the statement has to move in front of the loop, or of the function that the loop calls.

## References

PyTorch documentation, `torch.optim.Adam`; Kingma and Ba, "Adam: A Method for Stochastic Optimization", section 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import renewed_schedules, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.model import Module, Optimizer
from lintrain.pipeline.values.python import Constant, Instance, Unknown, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    OddCallRule,
    Pipeline,
    Related,
    Verdict,
    lazy_pattern,
    one_per_location,
)

KEEPS_AVERAGES = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"})

EPOCHS = lazy_pattern(r"epoch", re.IGNORECASE)
BATCHES = lazy_pattern(r"loader|_dl\b|\bdl\b|batches\b", re.IGNORECASE)
OF_OTHERS = lazy_pattern(
    r"fed|client|meta|maml|inner|fold|trial|task|seed|stage|phase|restart|reset|round", re.IGNORECASE
)
"""Words of loops and functions that start again on purpose."""

MODEL = lazy_pattern(r"model|net|^self$", re.IGNORECASE)
"""Names of what is trained, where nothing else is known of it."""

SCHEDULE = "schedule"
"""What a finding is about whose loop makes a schedule again."""
WHY_SCHEDULE = (
    "Each of these schedules takes one step before the next one takes its place, so the rate stays where it is for the "
    "first step. No error is raised."
)

STARTS_AGAIN = frozenset({Act.FREEZE, Act.REPLACE, Act.ADAPT, Act.NEW_PART})


class RecreatedOptimizer(OddCallRule):
    level = Level.WARNING
    odd = "optimizer again"
    odd_message = "a new optimizer takes the place of one that was just like it, and its averages are lost"
    odd_help = "create the optimizer once, before the loop"
    keywords = "optim|Adam|LR|sched & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        yield from one_per_location(
            self._report(pipeline, created, loop)
            for created in pipeline.acts(Act.OPTIMIZER)
            if (loop := _repeated_by(pipeline, created)) is not None
        )
        renewed = renewed_schedules.renewed_schedules(pipeline)
        yield from one_per_location(map(self._report_schedule, renewed))

    def _report_schedule(self, renewed: renewed_schedules.RenewedSchedule) -> Finding:
        return self.finding(
            renewed.location,
            f"each {_unit(renewed.loop)} creates a new `{renewed.name}`, which counts from 0 again",
            related=[Related(renewed.step, "takes its only step", "step")],
            why=WHY_SCHEDULE,
            help="create the schedule once, before the loop",
            subject=SCHEDULE,
        )

    def _report(self, pipeline: Pipeline, created: Event, loop: Loop) -> Finding:
        name = getattr(created.subject, "name", "optimizer")
        return self.finding(
            created.location,
            f"each {_unit(loop)} creates a new `{name}`, which has lost its averages",
            related=[Related(loop.location, "repeats it for the same model", "loop", loop.header)],
            help="create the optimizer once, before the loop over epochs",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if finding.subject != SCHEDULE or evidence.loop is None:
            return super().verify(finding, evidence)
        made = [each for each in evidence.loop.schedules if each.made_at and each.made_at.meets(finding.location)]
        most = max((each.steps for each in made), default=0)
        text = f"{len(made)} schedules were created here, with up to {most} steps each"
        if len(made) > 1 and most <= 1:
            return Verdict.confirmed(text, schedules=len(made))
        return Verdict.refuted(text, schedules=len(made)) if most > 1 else Verdict.inconclusive(text)


def _unit(loop: Loop) -> str:
    return "epoch" if EPOCHS.search(loop.header) or not BATCHES.search(loop.header) else "batch"


def _repeated_by(pipeline: Pipeline, created: Event) -> Loop | None:
    """The loop over epochs that creates an optimizer again in each iteration, alike and for one model."""
    optimizer = created.subject
    loop = created.loops[-1] if created.loops else None
    if loop is None or not isinstance(optimizer, Optimizer) or not _keeps_averages(optimizer):
        return None
    head = pipeline.code(loop.location).partition("\n")[0]
    is_repeated = EPOCHS.search(head) is not None or BATCHES.search(head) is not None
    is_over_epochs = is_repeated and OF_OTHERS.search(f"{head} {created.function}") is None
    if not is_over_epochs or created.is_conditional_in(loop) or not _is_alike(optimizer):
        return None
    if _is_made_once(pipeline, created, loop):
        return None
    inside = pipeline.events_in(loop)
    steps = any(event.act is Act.STEP and event.subject is optimizer for event in inside)
    is_other = any(event.act in STARTS_AGAIN for event in inside)
    is_from_before = _trains_from_before(pipeline, created, optimizer, loop)
    return loop if steps and not is_other and is_from_before else None


def _is_made_once(pipeline: Pipeline, created: Event, loop: Loop) -> bool:
    """Whether an `if` in the loop, which a first iteration fulfils, makes the optimizer: `if optimizer is None:`.

    Also one in a function that the loop calls, around the optimizer or around a call of the function that makes it.
    """
    source = pipeline.source_of(created.location)
    if any(loop.location.holds(test) and test.holds(created.location) for test in source.cached(blocks.branches)):
        return True
    around = blocks.scope_of(pipeline, created.location)
    made = rf"\b{re.escape(created.function)}\(" if created.function else None
    tests = [each for each in source.cached(blocks.branches) if ASKS_FOR_NONE.search(source.code(each))]
    return any(
        test.holds(created.location) or (made is not None and re.search(made, source.code(test)) is not None)
        for test in tests
        if blocks.scope_of(pipeline, test) is not around or test.holds(created.location)
    )


ASKS_FOR_NONE = lazy_pattern(r"^(?:el)?if\s+(?:not\s+[\w.]*optim\w*|[\w.]*optim\w*\s+is\s+None|not\s+hasattr\()")
"""The start of an `if` that an optimizer fulfils which is not there yet."""


def _keeps_averages(optimizer: Optimizer) -> bool:
    momentum = optimizer.arguments.get("momentum")
    has_momentum = isinstance(momentum, Constant) and bool(momentum.value)
    return optimizer.path.startswith("torch.optim.") and (optimizer.name in KEEPS_AVERAGES or has_momentum)


def _is_alike(optimizer: Optimizer) -> bool:
    """Whether each epoch creates the optimizer with the same settings."""
    others = (value for name, value in optimizer.arguments.items() if name not in {"params", "0"})
    settings = (optimizer.learning_rate, *others)
    return not optimizer.has_groups and all(isinstance(each, Constant) for each in settings)


def _trains_from_before(pipeline: Pipeline, created: Event, optimizer: Optimizer, loop: Loop) -> bool:
    """Whether the modules of an optimizer are all known, and made before a loop."""
    # What a function that the loop calls makes, together with its optimizer, is new in each iteration too.
    origins = [each.origin for each in optimizer.trains if each.origin is not None]
    is_called = not blocks.is_one_scope(pipeline, created.location, loop.location)
    if is_called and any(blocks.is_one_scope(pipeline, created.location, origin) for origin in origins):
        return False
    return bool(optimizer.trains) and all(_is_from_before(each, loop) for each in optimizer.trains)


def _is_from_before(trained: Value, loop: Loop) -> bool:
    """Whether a model is made before a loop: what is not known has a name that the loop does not bind."""
    if isinstance(trained, Module | Instance):
        return trained.origin is not None and not loop.location.holds(trained.origin)
    root = trained.name.partition(".")[0] if isinstance(trained, Unknown) else ""
    return root.isidentifier() and root not in loop.rebound and MODEL.search(root) is not None
