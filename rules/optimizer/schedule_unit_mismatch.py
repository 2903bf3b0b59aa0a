"""A learning-rate schedule is counted in epochs and stepped with every batch, or the other way round.

Its end then comes long before that of training, or never. Counted in epochs and stepped per batch, a linear schedule
has a learning rate of 0 after a handful of batches, and a cosine goes up and down all the time. Counted in batches and
stepped per epoch, it hardly leaves its warm-up. Either way no error appears, and the model learns little.

## Bad

    scheduler = get_linear_schedule_with_warmup(optimizer, 0, num_training_steps=epochs)  # <- schedule-unit-mismatch
    model.train()
    for epoch in range(epochs):
        for batch in train_loader:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            scheduler.step()

A cosine over all batches that goes one step per epoch stays at its start:

    steps = len(train_loader) * epochs
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)  # <- schedule-unit-mismatch
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        scheduler.step()

Lightning steps a schedule once per epoch, unless it is told otherwise:

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

An update of gathered gradients comes more often than once per epoch, too:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)  # <- schedule-unit-mismatch
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

Lightning is told to step with every batch:

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

## When it is fine

Schedules that do not know where training ends may be stepped as one likes, and a step that is told the epoch goes by
that:

    steps = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    restarts = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=epochs)
    for epoch in range(epochs):
        for index, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            restarts.step(epoch + index / len(train_loader))
        steps.step()

A step after the last batch of an epoch is one per epoch:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for index, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            if index == len(train_loader) - 1:
                scheduler.step()

What goes on with the epochs, or once in as many batches as there are, is no mistake:

    seldom = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    batches = len(train_loader)
    for epoch in range(epochs):
        for number, (x, y) in enumerate(train_loader):
            (criterion(net(x), y) / batches).backward()
            if (number + 1) % batches == 0:
                optimizer.step()
                optimizer.zero_grad()
                seldom.step()

Where every epoch is one batch, both are the same:

    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        optimizer.zero_grad()
        criterion(net(features), targets).backward()
        optimizer.step()
        scheduler.step()

What a number counts cannot be seen from a name like `length`:

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

Safe: a schedule that is planned in steps and stepped in epochs never leaves its beginning. Offered where Lightning is
told.

## References

Lightning#18570, Lightning#3869, Lightning#4466, Lightning#5584; ACE-Step#198; k-diffusion#50; PyTorch documentation,
`torch.optim.lr_scheduler`; Lightning documentation, `configure_optimizers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lightning_modules, lr_schedules
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

FAR = 2
"""A schedule that ends this many times too early or too late is counted in something else."""


class ScheduleUnitMismatch(Rule):
    level = Level.ERROR
    keywords = "sched|Sched|LR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for scheduler in pipeline.schedulers:
            length, pace = lr_schedules.length_of(scheduler), lr_schedules.pace_of(pipeline, scheduler)
            if length is not None and pace is not None:
                yield from self._in_loop(pipeline, scheduler, length, pace)
            elif length is not None and (updates := lr_schedules.pace_of_updates(pipeline, scheduler)) is not None:
                yield from self._with_updates(pipeline, scheduler, length, *updates)
        for configured in lightning_modules.configured_schedules(pipeline):
            yield from self._in_lightning(pipeline, configured)

    def _in_loop(
        self, pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace
    ) -> Iterator[Finding]:
        step = pipeline.code(pace.step.location)
        if not pace.per_batch and lr_schedules.unit_of(length) is lr_schedules.Unit.BATCHES:
            message = f"the schedule counts batches, but `{step}` runs once per epoch"
            cure = "call it after every `optimizer.step()`, or count the schedule in epochs"
        elif pace.per_batch and _is_number_of_epochs(pipeline, scheduler, length, pace):
            message = f"the schedule counts epochs, but `{step}` runs with every batch"
            cure = "count the schedule in batches, `len(loader) * epochs`, or step it once per epoch"
        else:
            return
        yield self.finding(
            length.location, message, related=[Related(pace.step.location, "stepped here", "step")], help=cure
        )

    def _with_updates(
        self, pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace, batches: int
    ) -> Iterator[Finding]:
        step = pipeline.code(pace.step.location)
        if _is_number_of_epochs(pipeline, scheduler, length, pace):
            yield self.finding(
                length.location,
                f"the schedule counts epochs, but `{step}` runs every {batches} batches",
                related=[Related(pace.step.location, "stepped here, with every update", "step")],
                help=f"count the schedule in updates, `len(loader) // {batches} * epochs`, or step it once per epoch",
            )

    def _in_lightning(self, pipeline: Pipeline, configured: lightning_modules.Configured) -> Iterator[Finding]:
        length = lr_schedules.length_of(configured.scheduler)
        unit = lr_schedules.Unit.UNKNOWN if length is None else lr_schedules.unit_of(length)
        if length is None or (unit, configured.interval) not in {
            (lr_schedules.Unit.BATCHES, "epoch"),
            (lr_schedules.Unit.EPOCHS, "step"),
        }:
            return
        handed = configured.handed_over(pipeline)
        pace = "once per epoch" if unit is lr_schedules.Unit.BATCHES else "with every batch"
        yield self.finding(
            handed.location if handed else length.location,
            f"the schedule counts {unit}, but Lightning steps it {pace}",
            related=[Related(length.location, f"counted in {unit}", "length")],
            help='add `"interval": "step"`' if unit is lr_schedules.Unit.BATCHES else 'leave `"interval": "step"` out',
            facts={"code": handed.with_interval("step") if handed and unit is lr_schedules.Unit.BATCHES else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.framework == "lightning":
            return _in_lightning(evidence)
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        batches = loop.loader.batches if loop.loader else None
        schedule = next((each for each in loop.schedules if each.steps and each.length), None)
        if schedule is None or schedule.length is None or not batches or not loop.batches:
            return Verdict.inconclusive(f"of {len(loop.schedules)} schedules none with a known end was seen to go on")
        per_epoch = round(schedule.steps_while_training / loop.batches * batches)
        text = f"`{schedule.name}` ends after {schedule.length} steps, and takes {per_epoch or 1} in an epoch"
        ends_within = schedule.length < per_epoch
        counts_batches = not per_epoch and schedule.length >= batches
        told = Verdict.confirmed if ends_within or counts_batches else Verdict.refuted
        return told(f"{text} of {batches} batches", length=schedule.length, per_epoch=per_epoch or 1)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of("step the schedule with every batch", fixes.Replace(finding.location, code), safe=True)


def _is_number_of_epochs(pipeline: Pipeline, scheduler: Scheduler, length: Argument, pace: lr_schedules.Pace) -> bool:
    """Whether a length is the number of times that the loop around the batches runs."""
    if pace.epochs is None or scheduler.name == "OneCycleLR":  # that one raises an error: overrun-one-cycle
        return False
    if scheduler.origin is None or pace.epochs.location.holds(scheduler.origin) or _has_one_batch(pace):
        return False
    if lr_schedules.unit_of(length) is lr_schedules.Unit.EPOCHS and lr_schedules.counts_epochs(pipeline, pace.epochs):
        return True
    number = literal(length.value)
    is_told_the_end = "num_training_steps" in scheduler.given
    return is_told_the_end and isinstance(number, int) and pace.times_around == number


def _has_one_batch(pace: lr_schedules.Pace) -> bool:
    loader = pace.loader
    return loader is not None and "batch_size=len(" in loader.text.replace(" ", "")


def _in_lightning(evidence: Evidence) -> Verdict:
    """Lightning says how long the run is that was planned."""
    length, interval = evidence.arguments.get("schedule_length"), evidence.arguments.get("schedule_interval")
    times = evidence.arguments.get("planned_epochs" if interval == "epoch" else "planned_steps")
    if not isinstance(length, int) or not isinstance(times, int):
        return Verdict.inconclusive(
            f"a schedule of {length} steps is stepped {times} times: one of the two is not known"
        )
    said = f"the schedule has {length} steps, and Lightning takes {times} of them, one with every {interval}"
    is_far = max(length, times) >= FAR * min(length, times)
    return (
        Verdict.confirmed(said, length=length, times=times)
        if is_far
        else Verdict.refuted(said, length=length, times=times)
    )
