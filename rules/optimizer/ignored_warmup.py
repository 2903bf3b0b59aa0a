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
from lintrain.rule import Finding, Level, Location, Pipeline, Rule, dataclass, fixes

WARMUPS = ("warmup_steps", "warmup_ratio")


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument that chooses the schedule, with the code that replaces it."""

    schedule: Location
    code: str


class IgnoredWarmup(Rule[Claim]):
    level = Level.WARNING
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
