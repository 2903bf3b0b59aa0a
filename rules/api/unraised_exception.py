"""An exception is built and not raised, so a check does not end the run.

`ValueError("unknown optimizer")` is a valid statement that does nothing. The script continues without what it checked
for: with another optimizer, with a name that nothing sets, or with a result of None.

## Bad

    name = "adam"
    if name not in ("sgd", "adam"):
        ValueError(f"unknown optimizer {name}")  # <- unraised-exception
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A function that returns one in place of a schedule, whose caller gets it as the schedule:

    def schedule_for(name):
        if name == "step":
            return torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return ValueError(f"unknown schedule {name}")  # <- unraised-exception

    schedule = schedule_for("step")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()

## Good

    name = "adam"
    if name not in ("sgd", "adam"):
        raise ValueError(f"unknown optimizer {name}")
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The caller of the function gets a schedule, or the run ends:

    def schedule_for(name):
        if name == "step":
            return torch.optim.lr_scheduler.StepLR(optimizer, 1)
        raise ValueError(f"unknown schedule {name}")

    schedule = schedule_for("step")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()

## When it is fine

An exception may be kept or passed on, and a function may be there to make one:

    errors = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        if not loss.isfinite():
            errors.append(ValueError("the loss is not finite"))
            continue
        loss.backward()
        optimizer.step()

## Fix

Asks first: a run that got past the check then ends there.

## References

Python language reference, "The raise statement".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.unraised import Unraised, unraised
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes, one_per_location


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the exception."""

    code: str


class UnraisedException(Rule[Claim]):
    level = Level.WARNING
    keywords = "Error|Exception|Warning"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in unraised(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._report, unraised(pipeline.source)))

    def _report(self, found: Unraised) -> Finding[Claim]:
        if found.is_warning:
            message = f"this `{found.name}` is built and not issued"
            return self.finding(found.location, message, help="pass it to `warnings.warn`")
        done, remedy = (
            ("returned", "write `raise` for `return`") if found.is_returned else ("built", "write `raise` before it")
        )
        message = f"this `{found.name}` is {done} and not raised"
        return self.finding(found.location, message, help=remedy, claim=Claim(found.code))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, f"raise {finding.claim.code}")
        return fixes.Fix.of("raise it", edit, safe=False)
