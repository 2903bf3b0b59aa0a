"""`ReduceLROnPlateau` is stepped without the metric that it watches.

It lowers the rate when a metric stops to improve, so `step` needs the value of that metric. Without it, the first call
raises a `TypeError`, after a whole epoch of training.

## Bad

    # raises TypeError: ReduceLROnPlateau.step() missing 1 required positional argument: 'metrics'
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()  # <- plateau-without-metric

## Good

    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(epochs):
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step(total / len(train_loader))

## When it is fine

The schedule is one of several, and a condition tells them apart:

    patience = len(loader) // 100
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    if patience:
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        if patience:
            scheduler.step(0.5)
        else:
            scheduler.step()

## Fix

None: which metric is watched is your choice.

## References

PyTorch documentation, `torch.optim.lr_scheduler.ReduceLROnPlateau`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lr_schedules
from lintrain.pipeline.events import Act, Condition, Event
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import Constant, Value, options_of
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, lazy_pattern

IS_THERE = lazy_pattern(r"\(?(?:[\w.]+ and )*[\w.]*sched\w*(?: is not None| != None)?\)?")
"""A test whether there is a schedule at all."""
OF_PROGRESS = lazy_pattern(r"""(?i)(?<!["'])\b(?:epoch|step|iteration|it|i)\b""")
"""Names of how far a training is."""


class PlateauWithoutMetric(Rule):
    level = Level.ERROR
    keywords = "Plateau"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for event in pipeline.acts(Act.SCHEDULER_STEP):
            # No schedule at all has no `step` either.
            options = [each for each in options_of(event.subject) if not _is_none(each)]
            schedules = [each for each in options if isinstance(each, Scheduler)]
            is_certain = len(schedules) == len(options) and not any(map(_may_choose, event.conditions))
            plateaus = [each for each in schedules if each.name == "ReduceLROnPlateau"]
            if plateaus and len(plateaus) == len(schedules) and is_certain and lr_schedules.takes_no_argument(event):
                found.setdefault(event.location, self._report(event, plateaus[0]))
        yield from found.values()

    def _report(self, event: Event, schedule: Scheduler) -> Finding:
        made = schedule.origin
        return self.finding(
            event.location,
            "`ReduceLROnPlateau.step` needs the metric that it watches",
            related=[Related(made, "made here", "origin")] if made else [],
            help="pass the loss of the validation: `scheduler.step(val_loss)`",
        )


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def _may_choose(condition: Condition) -> bool:
    """Whether a condition may decide which schedule it is: all but those of a schedule at all, and of progress."""
    return IS_THERE.fullmatch(condition.code) is None and OF_PROGRESS.search(condition.code) is None
