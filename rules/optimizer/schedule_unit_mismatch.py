"""A learning-rate schedule is counted in epochs but stepped per batch, or the other way round.

The schedule ends long before training does, or never. Counted in epochs and stepped per batch, a linear schedule
reaches a learning rate of 0 after a few batches, and a cosine schedule oscillates. Counted in batches and stepped per
epoch, the schedule hardly leaves its warmup. No error is raised, and the model learns little.

Only `ReduceLROnPlateau` watches a loss. `StepLR.step(val_loss)` takes it for the number of the epoch, and stays at the
first rate.

## Bad

    scheduler = get_linear_schedule_with_warmup(optimizer, 0, num_training_steps=epochs)  # <- schedule-unit-mismatch
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            scheduler.step()

A cosine schedule over all batches that is stepped once per epoch stays at its start:

    steps = len(train_loader) * epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)  # <- schedule-unit-mismatch
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

Lightning steps a schedule once per epoch by default:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.layer(x), y)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            scheduler = get_linear_schedule_with_warmup(optimizer, 10, self.trainer.estimated_stepping_batches)
            return [optimizer], [scheduler]  # <- schedule-unit-mismatch

    L.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Classifier(), loader)

Optimizer steps with gradient accumulation are also more frequent than epochs:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)  # <- schedule-unit-mismatch
    for epoch in range(epochs):
        for number, (x, y) in enumerate(train_loader):
            (criterion(net(x), y) / 2).backward()
            if (number + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()

A schedule that is as long as all batches then comes to a half of its way:

    steps = len(train_loader) * epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)  # <- schedule-unit-mismatch
    for epoch in range(epochs):
        for number, (x, y) in enumerate(train_loader):
            (criterion(net(x), y) / 2).backward()
            if (number + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()

## Good

    scheduler = get_linear_schedule_with_warmup(optimizer, 0, num_training_steps=len(train_loader) * epochs)
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            scheduler.step()

One cosine step per epoch, counted in epochs:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

Set the interval of Lightning to a step:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def training_step(self, batch, index):
            x, y = batch
            return F.cross_entropy(self.layer(x), y)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            scheduler = get_linear_schedule_with_warmup(optimizer, 10, self.trainer.estimated_stepping_batches)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    L.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Classifier(), loader)

A length in optimizer steps:

    steps = len(train_loader) // 2 * epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for epoch in range(epochs):
        for number, (x, y) in enumerate(train_loader):
            (criterion(net(x), y) / 2).backward()
            if (number + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()

## When it is fine

Schedules without a length may be stepped at any interval, and so may a schedule that gets the epoch as an argument:

    steps = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=epochs)
    for epoch in range(epochs):
        for index, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            restarts.step(epoch + index / len(train_loader))
        steps.step()

A step after the last batch of an epoch runs once per epoch:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for index, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            if index == len(train_loader) - 1:
                scheduler.step()

A schedule may be stepped once every `len(train_loader)` batches:

    seldom = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    batches = len(train_loader)
    for epoch in range(epochs):
        for number, (x, y) in enumerate(train_loader):
            (criterion(net(x), y) / batches).backward()
            if (number + 1) % batches == 0:
                optimizer.step()
                optimizer.zero_grad()
                seldom.step()

If every epoch is a single batch, both units are the same:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        optimizer.zero_grad()
        criterion(net(features), targets).backward()
        optimizer.step()
        scheduler.step()

A name like `length` does not show what it counts:

    def train(net, optimizer, train_loader, length):
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=length)
        for epoch in range(3):
            for x, y in train_loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()
                scheduler.step()

    train(net, optimizer, train_loader, int(os.environ.get("LENGTH", "18")))

## Fix

Safe: a schedule that is counted in steps and stepped per epoch hardly changes the learning rate. Offered for schedules
that Lightning steps.

## References

Lightning#18570, Lightning#3869, Lightning#4466, Lightning#5584; ACE-Step#198; k-diffusion#50; PyTorch documentation,
`torch.optim.lr_scheduler`; Lightning documentation, `configure_optimizers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_schedules, lightning_modules, lr_schedules, schedule_units
from lintrain.pipeline.events import Event
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Scheduler
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
    one_per_location,
)

ENDS_EARLY = (
    "The schedule ends after as many steps as the run has epochs: a linear one then keeps a rate of 0, and a cosine "
    "one oscillates. The rest of the training does not follow it, and no error is raised."
)
ENDS_WITH_FIRST = (
    "The schedule ends with the first epoch, at a rate of 0. The other epochs change no weight, and no error is raised."
)
OVERRUN = (
    "The schedule ends after as many steps as the run has epochs. `OneCycleLR` raises a ValueError at the step after "
    "its last one."
)
HARDLY_BEGINS = (
    "The run takes only the first steps of the schedule, so the rate hardly leaves the warmup or its first value, and "
    "never comes down. No error is raised."
)
ENDS_LATE = (
    "The run ends in the middle of the schedule: a warmup takes longer than planned, and the rate never comes down to "
    "where the schedule ends. No error is raised."
)
FALLS_EARLY = (
    "The rate falls many times faster than planned. The rest of the training runs with a rate that hardly changes the "
    "weights, and no error is raised."
)
WHY_PROCESSES = (
    "On several processes the schedule is several times longer than the run, so the rate never comes down to where the "
    "schedule ends. A run of one process is correct, and no error is raised."
)
WHY_TWICE = (
    "Both calls advance the same schedule, so the rate changes earlier than its settings say. Most schedules raise no "
    "error for it."
)
WHY_METRIC = (
    "Only `ReduceLROnPlateau` watches a metric. Other schedules compute the rate for an epoch of this number: a loss "
    "near 0 keeps the rate near its first value. Most of them raise no error."
)
WHY_KERAS = (
    "Keras advances the schedule after every optimizer step, so the rate falls many times faster than planned, usually "
    "within the first epochs. No error is raised."
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that sets the right interval, None without a fix; whether the length is that of all batches."""

    code: str | None
    counts_all: bool = False


class ScheduleUnitMismatch(Rule[Claim]):
    level = Level.ERROR
    keywords = "sched|Sched|LR|Decay"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found_twice: dict[Location, Finding[Claim]] = {}
        for scheduler in pipeline.schedulers:
            length, pace = lr_schedules.length_of(scheduler), lr_schedules.pace_of(pipeline, scheduler)
            found: list[Finding[Claim]] = []
            if length is not None and pace is not None:
                batches = schedule_units.batches_of_accelerator(pipeline, scheduler) if pace.per_batch else None
                found.extend(
                    self._in_loop(pipeline, scheduler, length, pace)
                    if batches is None
                    else self._with_updates(pipeline, scheduler, length, pace, batches)
                )
            elif length is not None and (updates := lr_schedules.pace_of_updates(pipeline, scheduler)) is not None:
                found.extend(self._with_updates(pipeline, scheduler, length, *updates))
            paced = pace or lr_schedules.pace_with_optimizer(pipeline, scheduler)
            yield from found or self._by_rate(pipeline, scheduler, paced)
            if (
                length is not None
                and (multiplied := schedule_units.multiplied(pipeline, scheduler, length)) is not None
            ):
                yield self._by_processes(multiplied, may_prepare=bool(pipeline.launchers))
            if (rows := lr_schedules.rows_in(pipeline, scheduler)) is not None:
                yield self._by_rows(rows)
            if pace is None and (both := lr_schedules.double_pace(pipeline, scheduler)) is not None:
                twice = self._twice(pipeline, both[0].step, both[1].step, by_batch=True)
                found_twice[twice.location] = twice
        for first, second, by_batch in lr_schedules.steps_in_two_places(pipeline):
            found_twice.setdefault(second.location, self._twice(pipeline, first, second, by_batch=by_batch))
        yield from found_twice.values()
        yield from one_per_location(self._by_metric(*each) for each in lr_schedules.metrics_as_epochs(pipeline))
        for counted in keras_schedules.counted_in_epochs(pipeline.source):
            yield self.finding(
                counted.location,
                f"`{counted.schedule}` counts batches, and gets the number of epochs",
                related=[Related(counted.epochs, "the epochs are counted here", "epochs")],
                why=WHY_KERAS,
                help="multiply it by the batches of an epoch",
            )
        for configured in lightning_modules.configured_schedules(pipeline):
            yield from self._in_lightning(pipeline, configured)

    def _in_loop(
        self, pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace
    ) -> Iterator[Finding[Claim]]:
        step = pipeline.code(pace.step.location)
        if not pace.per_batch and lr_schedules.unit_of(length) is lr_schedules.Unit.BATCHES:
            message = f"the schedule counts batches, but `{step}` runs once per epoch"
            why, advice = HARDLY_BEGINS, "call it after every `optimizer.step()`, or count the schedule in epochs"
        elif pace.per_batch and schedule_units.is_number_of_epochs(pipeline, scheduler, length, pace):
            message = f"the schedule counts epochs, but `{step}` runs on every batch"
            why, advice = ENDS_EARLY, "count the schedule in batches, `len(loader) * epochs`, or step it once per epoch"
        elif schedule_units.ends_with_first_epoch(pipeline, scheduler, length, pace):
            message = f"the schedule counts the batches of one epoch, but `{step}` runs in all of them"
            why, advice = ENDS_WITH_FIRST, "multiply its length by the number of epochs"
        else:
            return
        related = [Related(pace.step.location, "stepped here", "step")]
        yield self.finding(length.location, message, related=related, why=why, help=advice)

    def _by_rate(
        self, pipeline: Pipeline, scheduler: Scheduler, pace: lr_schedules.Pace | None
    ) -> Iterator[Finding[Claim]]:
        fall = schedule_units.fall(scheduler, (pace.epoch_count or 0) if pace is not None else 0)
        if (
            fall is None
            or pace is None
            or not pace.per_batch
            or pace.epochs is None
            or schedule_units.has_one_batch(pace)
        ):
            return
        argument, when = fall
        unit = "every batch"
        if lr_schedules.pace_of(pipeline, scheduler) is None:
            when, unit = when.replace("batches", "updates").replace("every batch", "every update"), "every update"
        yield self.finding(
            argument.location,
            f"`{scheduler.name}` lowers the rate {when}, not epochs",
            related=[Related(pace.step.location, f"stepped here, on {unit}", "step")],
            why=FALLS_EARLY,
            help="step the schedule once per epoch, or count it in batches",
        )

    def _by_processes(self, multiplied: Location, *, may_prepare: bool) -> Finding[Claim]:
        return self.finding(
            multiplied,
            "the schedule counts the steps of all processes, but each process steps its own",
            why=WHY_PROCESSES,
            help="pass the schedule to `accelerator.prepare`"
            if may_prepare
            else "count the optimizer steps of one process",
        )

    def _by_rows(self, counted: Location) -> Finding[Claim]:
        return self.finding(
            counted,
            "the schedule counts rows, but each of its steps takes a batch of them",
            why=HARDLY_BEGINS,
            help="count batches: `len(loader) * epochs`, divided by the batches that are accumulated",
        )

    def _twice(self, pipeline: Pipeline, first: Event, second: Event, *, by_batch: bool) -> Finding[Claim]:
        step = pipeline.code(second.location)
        often = "runs once per epoch, and on every batch as well" if by_batch else "is the second step in each round"
        return self.finding(
            second.location,
            f"`{step}` {often}",
            related=[Related(first.location, "stepped here" + (" on every batch" if by_batch else ""), "step")],
            why=WHY_TWICE,
            help="step the schedule at one of the two places",
            level=Level.WARNING,
        )

    def _with_updates(
        self, pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace, batches: int
    ) -> Iterator[Finding[Claim]]:
        step = pipeline.code(pace.step.location)
        if schedule_units.is_number_of_epochs(pipeline, scheduler, length, pace):
            yield self.finding(
                length.location,
                f"the schedule counts epochs, but `{step}` runs every {batches} batches",
                related=[Related(pace.step.location, "stepped here, after every optimizer step", "step")],
                why=ENDS_EARLY,
                help=f"count optimizer steps, `len(loader) // {batches} * epochs`, or step the schedule once per epoch",
            )
        elif schedule_units.counts_all_batches(scheduler, length, pace):
            yield self.finding(
                length.location,
                f"the schedule counts all batches, but `{step}` runs every {batches} batches",
                related=[Related(pace.step.location, "stepped here, after every optimizer step", "step")],
                why=ENDS_LATE,
                help=f"count optimizer steps: divide the number of batches by {batches}",
                claim=Claim(None, counts_all=True),
            )

    def _by_metric(self, step: Event, schedule: Scheduler, metric: str) -> Finding[Claim]:
        return self.finding(
            step.location,
            f"`{schedule.name}` takes `{metric}` for the number of the epoch",
            related=[Related(schedule.origin, "made here", "origin")] if schedule.origin else [],
            why=WHY_METRIC,
            help="call `step()` without it, or use `ReduceLROnPlateau`, which watches a metric",
        )

    def _in_lightning(self, pipeline: Pipeline, configured: lightning_modules.Configured) -> Iterator[Finding[Claim]]:
        length = lr_schedules.length_of(configured.scheduler)
        unit = lr_schedules.Unit.UNKNOWN if length is None else lr_schedules.unit_of(length)
        if length is not None and unit is lr_schedules.Unit.UNKNOWN:
            counts = (
                schedule_units.has_steps_of_epochs(configured.scheduler)
                or schedule_units.counts_batches(pipeline, configured, length)
                or schedule_units.is_product(pipeline, length)
            )
            unit = lr_schedules.Unit.BATCHES if counts else unit
        if length is None or (unit, configured.interval) not in {
            (lr_schedules.Unit.BATCHES, "epoch"),
            (lr_schedules.Unit.EPOCHS, "step"),
        }:
            return
        returned = configured.returned_schedule(pipeline)
        pace = "once per epoch" if unit is lr_schedules.Unit.BATCHES else "on every batch"
        yield self.finding(
            returned.location if returned else length.location,
            f"the schedule counts {unit}, but Lightning steps it {pace}",
            related=[Related(length.location, f"counted in {unit}", "length")],
            why=HARDLY_BEGINS
            if unit is lr_schedules.Unit.BATCHES
            else OVERRUN
            if configured.scheduler.name == "OneCycleLR"
            else ENDS_EARLY,
            help='add `"interval": "step"`' if unit is lr_schedules.Unit.BATCHES else 'remove `"interval": "step"`',
            claim=Claim(returned.with_interval("step") if returned and unit is lr_schedules.Unit.BATCHES else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop = evidence.loop
        if evidence.framework == "lightning":
            location = evidence.first("configured") or evidence.location
            if schedule_units.is_of_other_unit(evidence):
                unit = evidence.arguments.get("schedule_interval")
                message = f"Lightning steps this schedule once per {unit}, but its length counts something else"
                why = HARDLY_BEGINS if unit == "epoch" else ENDS_EARLY
                yield self.finding(location, message, why=why, help='set `"interval"` to what the length counts')
            elif schedule_units.spent_in_an_epoch(evidence):
                message = "Lightning steps this schedule once per step, and nothing of its rate is left after an epoch"
                yield self.finding(
                    location,
                    message,
                    why=FALLS_EARLY,
                    help='set `"interval"` to `"epoch"`, or count its length in steps',
                )
            return
        schedule = schedule_units.measured(loop.schedules) if loop is not None else None
        if loop is None or schedule is None or schedule.made_at is None or not loop.rounds_planned:
            return
        batches, length = (loop.loader.batches if loop.loader else None) or 0, schedule.length or 0
        if schedule.steps_while_training:
            is_other = not loop.is_cut_short and length < batches
            why = ENDS_EARLY
            message, remedy = "per batch, but its length counts epochs", "use `len(loader) * epochs` as its length"
        else:
            is_whole = batches > 1 and length % batches == 0 and length <= batches * loop.rounds_planned
            is_other = is_whole and length >= schedule_units.FAR * loop.rounds_planned
            why = HARDLY_BEGINS
            message, remedy = "per epoch, but its length counts batches", "use the number of epochs as its length"
        if is_other:
            yield self.finding(schedule.made_at, f"`{schedule.name}` is stepped once {message}", why=why, help=remedy)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.framework == "lightning":
            return schedule_units.judged_with_lightning(evidence)
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        batches = loop.loader.batches if loop.loader else None
        schedule = schedule_units.measured(loop.schedules)
        if schedule is None or schedule.length is None or not batches or not loop.batches:
            return Verdict.inconclusive(f"none of {len(loop.schedules)} schedules with a known length was stepped")
        if finding.claim is not None and finding.claim.counts_all:
            return schedule_units.judged_by_updates(loop, schedule, batches)
        per_epoch = round(schedule.steps_while_training / loop.batches * batches)
        text = f"`{schedule.name}` ends after {schedule.length} steps, and takes {per_epoch or 1} per epoch"
        ends_within = schedule.length < per_epoch
        counts_batches = not per_epoch and schedule.length >= batches
        outcome = Verdict.confirmed if ends_within or counts_batches else Verdict.refuted
        return outcome(f"{text} of {batches} batches", length=schedule.length, per_epoch=per_epoch or 1)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        return fixes.Fix.of("step the schedule on every batch", fixes.Replace(finding.location, code), safe=True)
