"""OneCycleLR is stepped more often than its `total_steps`.

OneCycleLR raises ValueError at the first step beyond its end: training fails after hours, in its last epoch or after a
resume. Typical causes are a length in epochs with a step per batch, a length of a single epoch, and a length that
counts accumulated batches.

## Bad

    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=epochs)  # <- overrun-one-cycle
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()
    # raises ValueError: Tried to step 2 times. The specified number of total steps is 1

A length of one epoch, for two epochs of training:

    steps = len(train_loader)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)  # <- overrun-one-cycle
    for epoch in range(2):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()
    # raises ValueError: Tried to step 7 times. The specified number of total steps is 6

## Good

    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=len(train_loader) * epochs)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()

For two epochs:

    steps = len(train_loader)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=len(train_loader) * 2)
    for epoch in range(2):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()

## When it is fine

Taking fewer steps than the schedule has raises no error, and a length may be unknown:

    length = int(os.environ.get("STEPS", "100"))
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, epochs=3, steps_per_epoch=len(train_loader)
    )
    other = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=length)
    for epoch in range(2):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()
            other.step()

A loop may end with the schedule:

    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=4)
    done = 0
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            cycle.step()
            done += 1
            if done == 4:
                break
        if done == 4:
            break

## Fix

Asks first: a longer schedule changes the learning rate of every step. There is no fix if `total_steps` is not an
argument of the `OneCycleLR` call, or if the lengths of the loops are not available before it.

## References

PyTorch documentation, `torch.optim.lr_scheduler.OneCycleLR`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, lr_schedules, script_text, training_loops
from lintrain.pipeline import blocks, events
from lintrain.pipeline.values import argument, model, python, tensors
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

OVERRUN = "Tried to step"


KNOWN = frozenset({expressions.Kind.NAME, expressions.Kind.CONSTANT})
"""Expressions that may be repeated elsewhere in the code."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the right length, empty without a fix, and the number of epochs if it is known."""

    total: str
    epochs: int | None


class OverrunOneCycle(Rule[Claim]):
    level = Level.ERROR
    keywords = "OneCycleLR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if script_text.runs_by_launcher(pipeline):  # a prepared schedule stops at its end
            return
        for scheduler in pipeline.schedulers:
            length, pace = lr_schedules.length_of(scheduler), lr_schedules.pace_of(pipeline, scheduler)
            if scheduler.name != "OneCycleLR" or length is None or pace is None or not pace.per_batch:
                continue
            if pace.epochs is None or any(
                event.act is events.Act.LEAVE for event in training_loops.events_in(pipeline, pace.epochs)
            ):
                continue
            if _is_short(pipeline, scheduler, length.value, pace, lr_schedules.unit_of(length)):
                yield self.finding(
                    length.location,
                    f"`{pipeline.code(pace.step.location)}` runs more often than `OneCycleLR` allows",
                    related=[Related(pace.step.location, "steps on every batch of every epoch", "step")],
                    help="use `total_steps=len(loader) * epochs`",
                    claim=Claim(_total(pipeline, scheduler, length, pace), pace.epoch_count),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for schedule in evidence.loop.schedules if evidence.loop else ():
            if schedule.name == "OneCycleLR" and schedule.made_at is not None:
                yield self.finding(
                    schedule.made_at,
                    "`OneCycleLR` ends before the training does",
                    help="pass `epochs=` and `steps_per_epoch=` of the whole training",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(OVERRUN):
            return Verdict.confirmed(f"`OneCycleLR` raised `{OVERRUN}`: it was stepped beyond its end")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        batches = loop.loader.batches if loop.loader else None
        schedule = next((each for each in loop.schedules if each.name == "OneCycleLR" and each.length), None)
        if schedule is None or schedule.length is None or not batches or not loop.batches:
            return Verdict.inconclusive(f"none of {len(loop.schedules)} schedules is a `OneCycleLR` that was stepped")
        per_epoch = round(schedule.steps_while_training / loop.batches * batches)
        text = f"`OneCycleLR` has {schedule.length} steps, and takes {per_epoch} per epoch"
        if loop.is_cut_short:
            return Verdict.inconclusive(f"{text}, if the loop is not left before")
        if schedule.length < per_epoch or (loop.came_round and schedule.length == per_epoch):
            second = ", and a second epoch starts" if loop.came_round else ""
            return Verdict.confirmed(f"{text}{second}", length=schedule.length, per_epoch=per_epoch)
        epochs = finding.claim.epochs if finding.claim else loop.rounds_planned
        if loop.came_round and epochs is None:
            return Verdict.inconclusive(f"{text}; the number of epochs is unknown")
        if epochs is not None and schedule.length < epochs * per_epoch:
            return Verdict.confirmed(f"{text}, for {epochs} epochs", length=schedule.length, per_epoch=per_epoch)
        return Verdict.refuted(text, length=schedule.length, per_epoch=per_epoch)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        total = finding.claim.total if finding.claim else ""
        if not total:
            return None
        return fixes.Fix.of(f"pass `total_steps={total}`", fixes.Replace(finding.location, total), safe=False)


def _total(pipeline: Pipeline, scheduler: model.Scheduler, length: argument.Argument, pace: lr_schedules.Pace) -> str:
    """The number of steps of the loops, as code for the call; empty if it is not certain."""
    origin, epochs = scheduler.origin, pace.epochs
    given = scheduler.given.get("total_steps")
    if origin is None or epochs is None or given is not length or not origin.holds(length.location):
        return ""
    loader, rounds = (expressions.parsed(f"({loop.header})") for loop in (pace.training.loop, epochs))
    number = rounds.arguments[0] if len(rounds.arguments) == 1 else None
    is_counted = rounds.called_name == "range" and rounds.called_on is None
    if loader.kind is not expressions.Kind.NAME or number is None or number.kind not in KNOWN or not is_counted:
        return ""
    is_near = blocks.is_one_scope(pipeline, origin, epochs.location)
    names = [each.name for each in (loader, number) if each.kind is expressions.Kind.NAME]
    is_known = all(_is_set_before(pipeline, name, origin) for name in names)
    return f"len({loader.name}) * {number.code}" if is_near and is_known else ""


def _is_set_before(pipeline: Pipeline, name: str, created: Location) -> bool:
    """Whether a name has its final value when the schedule is created."""
    locations = script_text.bindings_of(pipeline.source_of(created), name)
    return bool(locations) and all(location < created for location in locations)


def _is_short(
    pipeline: Pipeline,
    scheduler: model.Scheduler,
    length: python.Value,
    pace: lr_schedules.Pace,
    unit: lr_schedules.Unit,
) -> bool:
    """Whether a cycle ends before the loops: its length counts epochs, or too few passes over the same loader."""
    if scheduler.origin is None or pace.epochs is None or pace.epochs.location.holds(scheduler.origin):
        return False
    if unit is lr_schedules.Unit.EPOCHS:
        return "total_steps" in scheduler.given and lr_schedules.counts_epochs(pipeline, pace.epochs)
    if not isinstance(length, tensors.Count) or not length.is_exact or pace.epoch_count is None:
        return False
    is_same = length.of is pace.loader or (pace.loader is None and length.of is pace.training.loop.over)
    rounds = _epochs_in(scheduler, length)
    return is_same and rounds is not None and rounds < pace.epoch_count


def _epochs_in(scheduler: model.Scheduler, length: tensors.Count) -> float | None:
    """The number of passes over the loader that a cycle counts; None if it is unknown."""
    numbers = [python.literal(each) for each in length.multipliers]
    if "steps_per_epoch" in scheduler.given and "total_steps" not in scheduler.given:
        numbers.append(python.literal(scheduler.given["epochs"].value) if "epochs" in scheduler.given else None)
    rounds = 1.0
    for number in numbers:
        if not isinstance(number, int | float):
            return None
        rounds *= number
    for divisor in length.divisors:
        number = python.literal(divisor)
        if not isinstance(number, int) or number < 1:
            return None
        rounds /= number
    return rounds
