"""A constant schedule is given warm-up steps, which it ignores.

The schedule `constant` keeps the learning rate as it is from the first step on. Only `constant_with_warmup` raises it
over the warm-up steps; without them, the first large steps may ruin the pretrained weights.

## Bad

    args = TrainingArguments("out", lr_scheduler_type="constant", warmup_steps=100)  # <- ignored-warmup
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The same in a custom loop:

    scheduler = get_scheduler("constant", optimizer, num_warmup_steps=100)  # <- ignored-warmup
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

## Good

    args = TrainingArguments("out", lr_scheduler_type="constant_with_warmup", warmup_steps=100)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

and

    scheduler = get_scheduler("constant_with_warmup", optimizer, num_warmup_steps=100)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

## When it is fine

No warm-up, or a number that only the user knows:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", default="constant")
    parser.add_argument("--warmup", type=int, default=0)
    options = parser.parse_args()
    args = TrainingArguments("out", lr_scheduler_type=options.schedule, warmup_steps=options.warmup)

## Fix

Asks first: the first steps then have a smaller learning rate.

## References

Transformers documentation, `get_scheduler`, `get_constant_schedule`; `get_scheduler` of 5.23 drops the number.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.python import Value, literal
from lintrain.rule import Evidence, Finding, Level, Location, OddCallRule, Pipeline, Verdict, dataclass, fixes

WARMUPS = ("warmup_steps", "warmup_ratio")


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument that chooses the schedule, with the code that replaces it."""

    schedule: Location
    code: str


class IgnoredWarmup(OddCallRule[Claim]):
    level = Level.WARNING
    odd = "ignored warm-up"
    odd_message = "the schedule `constant` ignores its warm-up steps"
    odd_help = "choose `constant_with_warmup`, or remove the argument"
    judges_configurations = True
    keywords = "constant & warmup"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for arguments in pipeline.arguments:
            name = next((name for name in WARMUPS if _is_positive(arguments.value(name))), None)
            if name and name in arguments.locations and literal(arguments.value("lr_scheduler_type")) == "constant":
                yield self._report(
                    arguments.locations[name], name, arguments.locations["lr_scheduler_type"], "lr_scheduler_type="
                )
        for schedule in pipeline.schedulers:
            chosen, steps = schedule.given.get("name"), schedule.given.get("num_warmup_steps")
            if chosen and steps and literal(chosen.value) == "constant" and _is_positive(steps.value):
                yield self._report(steps.keyword or steps.location, "num_warmup_steps", chosen.location, "")

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        yield from super().suspects(evidence)
        if evidence.arguments.get("lr_scheduler_type") == "constant":
            yield self.finding(evidence.location_of("arguments"), self.odd_message, help=self.odd_help)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        schedule = evidence.schedule
        if "lr_scheduler_type" not in evidence.arguments:  # no Trainer
            return super().verify(finding, evidence)
        if "optimizers" in evidence.overrides:
            return Verdict.inconclusive("the trainer was given a schedule, whose settings are not its arguments")
        if schedule is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        asked = max(float(evidence.arguments.get(name) or 0) for name in WARMUPS)
        is_constant = all(rate == schedule.highest for _, rate in schedule.rates)
        text = f"the rate is {schedule.rates[0][1]:g} at step 0 and {schedule.last:g} at step {schedule.steps - 1}"
        numbers = {"asked": asked, "first": schedule.rates[0][1], "last": schedule.last}
        if asked and is_constant and schedule.steps > 1:
            return Verdict.confirmed(f"{text}, with a warm-up of {asked:g}", **numbers)
        return Verdict.refuted(f"{text}, with a warm-up of {asked:g}", **numbers)

    def _report(self, location: Location, name: str, schedule: Location, prefix: str) -> Finding[Claim]:
        return self.finding(
            location,
            f"the schedule `constant` ignores `{name}`",
            help="choose `constant_with_warmup`, or remove the argument",
            claim=Claim(schedule, f'{prefix}"constant_with_warmup"'),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        return fixes.Fix.of("warm up", fixes.Replace(claim.schedule, claim.code), safe=False)


def _is_positive(value: Value) -> bool:
    number = literal(value)
    return isinstance(number, int | float) and number > 0
