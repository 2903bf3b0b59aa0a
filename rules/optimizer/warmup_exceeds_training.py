"""The learning rate is still warming up when training ends.

A schedule with warmup raises the learning rate from 0 over the first steps. If the warmup has more steps than the run,
the learning rate never reaches the configured value, and the model is trained with a fraction of it.

## Bad

    args = TrainingArguments("out", max_steps=100, warmup_steps=500)  # <- warmup-exceeds-training
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A schedule in a custom loop:

    optimizer = AdamW(model.parameters(), lr=2e-5)
    scheduler = get_linear_schedule_with_warmup(  # <- warmup-exceeds-training
        optimizer, num_warmup_steps=500, num_training_steps=100
    )
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
        scheduler.step()

## Good

    args = TrainingArguments("out", max_steps=100, warmup_steps=0.1)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A schedule in a custom loop:

    optimizer = AdamW(model.parameters(), lr=2e-5)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=10, num_training_steps=100)
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
        scheduler.step()

## When it is fine

A constant schedule has no warmup:

    args = TrainingArguments("out", max_steps=100, warmup_steps=500, lr_scheduler_type="constant")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The number of steps may be an option:

    steps = int(os.environ.get("STEPS", "1000"))
    args = TrainingArguments("out", max_steps=steps, warmup_steps=500)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: a tenth of the run is common, but not what the script requests.

## References

Lightning#18570; transformers documentation, `TrainingArguments.warmup_steps`. Measured on transformers 5.23: 500 warmup
steps in a run of 3 steps at 1e-3 give learning rates of 0, 2e-6 and 4e-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import evaluation_schedule, gradients
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import Value, literal
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    from lintrain.evidence.run import LoopEvidence

SCHEDULES = frozenset(
    {
        "transformers.get_linear_schedule_with_warmup",
        "transformers.get_cosine_schedule_with_warmup",
        "transformers.get_polynomial_decay_schedule_with_warmup",
        "transformers.get_cosine_with_hard_restarts_schedule_with_warmup",
    }
)
CONSTANT = "constant"
MOST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Claim:
    """The steps of warmup and of the run, and whether the argument accepts a share of the run."""

    warmup: int
    total: int
    takes_share: bool


class WarmupExceedsTraining(Rule[Claim]):
    level = Level.WARNING
    judges_configurations = True
    keywords = "Arguments|Config|sched"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for settings in pipeline.arguments:
            warmup, total = _steps(settings.value("warmup_steps")), _steps(settings.value("max_steps"))
            location = settings.locations.get("warmup_steps")
            if warmup is None or total is None or location is None or not _warms_up(settings) or warmup < total:
                continue
            takes_share = gradients.is_since(pipeline.targets, "transformers", (5, 0))
            yield self._report(location, warmup, total, settings.locations.get("max_steps"), takes_share=takes_share)
        for call in pipeline.calls:
            yield from self._of_schedule(call)

    def _of_schedule(self, call: LibraryCall) -> Iterator[Finding[Claim]]:
        if call.path not in SCHEDULES or call.is_open:
            return
        given = {name: _steps(argument.value) for name, argument in call.arguments.items()}
        warmup, total = given.get("num_warmup_steps"), given.get("num_training_steps")
        if warmup is not None and total is not None and warmup >= total:
            yield self._report(call.location, warmup, total, None, takes_share=False)

    def _report(
        self, location: Location, warmup: int, total: int, end: Location | None, *, takes_share: bool
    ) -> Finding[Claim]:
        advice = "use a share of the run: `warmup_steps=0.1`" if takes_share else "warm up over a tenth of the steps"
        return self.finding(
            location,
            f"{warmup} warmup steps in a run of {total}: the learning rate never reaches its value",
            related=[Related(end, "the run ends here", "end")] if end else [],
            help=advice,
            subject="lr",
            claim=Claim(warmup, total, takes_share),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.schedule is not None:
            yield self.finding(
                evidence.location_of("arguments"),
                f"the learning rate is still rising after {evidence.schedule.steps} steps, when training ends",
                help="warm up over a tenth of the steps",
                subject="lr",
            )
        for schedule in evidence.loop.schedules if evidence.loop is not None else ():
            peak, length = schedule.peak or 0, schedule.length or 0
            if 0 < length <= peak + 1 and schedule.made_at is not None:
                yield self.finding(
                    schedule.made_at,
                    f"{peak} warmup steps in a run of {length}: the learning rate never reaches its value",
                    help="warm up over a tenth of the steps",
                    subject="lr",
                    claim=Claim(peak, length, takes_share=False),
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        schedule = evidence.schedule
        if schedule is None and evidence.loop is not None:
            return _in_own_loop(finding, evidence.loop)
        if schedule is None:
            return Verdict.inconclusive(f"the schedule was not run: {evidence.not_reached('step')}")
        share = schedule.highest_at / schedule.steps
        text = (
            f"the learning rate peaks at {schedule.highest:.2g}, at step {schedule.highest_at + 1} of {schedule.steps}"
        )
        if schedule.highest_at == schedule.steps - 1 > 0:
            return Verdict.confirmed(text, share=share)
        return Verdict.refuted(text, share=share) if share <= MOST_SHARE else Verdict.inconclusive(text, share=share)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.takes_share:
            return None
        edit = fixes.SetArgument(finding.location, "warmup_steps", "0.1")
        return fixes.Fix.of("warm up over a tenth of the run", edit, safe=False)


def _steps(value: Value) -> int | None:
    number = literal(value)
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def _warms_up(settings: TrainingArguments) -> bool:
    """Whether the schedule certainly has a warmup."""
    if evaluation_schedule.is_left_out(settings, "lr_scheduler_type"):
        return True
    name = literal(settings.value("lr_scheduler_type"))
    return isinstance(name, str) and name != CONSTANT


def _in_own_loop(finding: Finding[Claim], loop: LoopEvidence) -> Verdict:
    """The verdict on the schedule of a custom loop, from its peak within the steps of the run."""
    total = finding.claim.total if finding.claim else None
    peak = next((schedule.peak for schedule in loop.schedules if schedule.peak is not None), None)
    if peak is None or total is None:
        return Verdict.inconclusive(f"none of {len(loop.schedules)} schedules has a known peak")
    text = f"the learning rate peaks at step {peak} of {total}"
    if peak >= total - 1:
        return Verdict.confirmed(text, peak=peak, total=total)
    return (
        Verdict.refuted(text, peak=peak, total=total)
        if peak <= MOST_SHARE * total
        else Verdict.inconclusive(text, peak=peak)
    )
