"""What all processes gathered is read as one number.

`accelerator.gather(loss)` returns the losses of all processes, one after the other. On one GPU it returns the loss
itself, so `.item()` works there; on two, it raises an error in the first step, because two losses are no single number.

## Bad

    accelerator = Accelerator(cpu=True)
    model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
    total = 0.0
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        total += accelerator.gather(loss).item()  # <- gathered-number
    print(total)

## Good

    accelerator = Accelerator(cpu=True)
    model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
    total = 0.0
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        total += accelerator.gather(loss).mean().item()
    print(total)

## When it is fine

The losses are reduced to one number by `reduce`, or by a sum:

    accelerator = Accelerator(cpu=True)
    model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
    model.train()
    for batch in train_loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        mean = accelerator.reduce(loss, reduction="mean").item()
        print(mean, accelerator.gather(loss).sum().item())

## Fix

Asks first: a loss that is a sum over rows is added up, and not averaged. There is none for other numbers.

## References

Accelerate documentation, `Accelerator.gather`; `_gpu_gather` of accelerate 1.15, which gives a number an axis for the
processes.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.gathered import ReadNumber, numbers_of_gathered
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that has a loss of each process: `accelerator.gather(loss)`; empty for other numbers."""

    losses: str


class GatheredNumber(Rule[Claim]):
    level = Level.ERROR
    keywords = "gather & .item()"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._report, numbers_of_gathered(pipeline)))

    def _report(self, found: ReadNumber) -> Finding[Claim]:
        code = found.code if len(found.code) <= 36 else "accelerator.gather(…)"
        return self.finding(
            found.location,
            f"`{code}` has one entry per process, and `.item()` needs one",
            related=[Related(found.gathered, "gathered here")] if found.gathered else [],
            help="reduce it first: `.mean()` of losses, `.sum()` of counts",
            claim=Claim(found.code if "loss" in found.code else ""),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        if "cannot be converted to Scalar" in ranks.failure:
            return Verdict.confirmed(f"{ranks.processes} processes: {ranks.failure.rstrip('.')}")
        return Verdict.inconclusive(f"{ranks.steps} steps of {ranks.processes} processes did not raise it")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.losses:
            return None
        edit = fixes.Replace(finding.location, f"{finding.claim.losses}.mean().item()")
        return fixes.Fix.of("average the losses of the processes", edit, safe=False)
