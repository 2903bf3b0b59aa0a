"""A share between 0 and 1 is computed with `//`, so it is 0 until the end.

`//` rounds down. The progress of a training stays 0 and a learning rate never decays, an accuracy is 0 unless every row
is correct, and a mean loss has no decimals. No error is raised.

## Bad

    total_steps = 8
    for step in range(total_steps):
        progress = step // total_steps  # <- floored-ratio
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 - progress)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

An accuracy:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    correct, total = 0, 0
    for x, y in loader:
        correct += (net(x).argmax(1) == y).sum().item()
        total += len(y)
    accuracy = correct // total  # <- floored-ratio
    print(accuracy)

## Good

    total_steps = 8
    for step in range(total_steps):
        progress = step / total_steps
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 - progress)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

and

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    correct, total = 0, 0
    for x, y in loader:
        correct += (net(x).argmax(1) == y).sum().item()
        total += len(y)
    accuracy = correct / total
    print(accuracy)

## When it is fine

Whole per cent, a number of epochs, and an exponent that grows every few epochs:

    steps_per_epoch, total = 4, 64
    for step in range(8):
        epoch = step // steps_per_epoch
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * 0.1 ** (epoch // 2)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
    correct = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    accuracy = 100 * correct // total

## Fix

Asks first: what is computed from the share changes.

## References

Python documentation, "Binary arithmetic operations".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import floored_ratios
from lintrain.rule import Finding, Level, Pipeline, Rule, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The same division without rounding."""

    code: str


class FlooredRatio(Rule[Claim]):
    level = Level.ERROR
    keywords = "acc|loss|progress|ratio|frac|share|alpha|coeff|factor|lr|cos"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from map(self._report, floored_ratios.floored_ratios(pipeline.source))

    def _report(self, found: floored_ratios.Floored) -> Finding[Claim]:
        return self.finding(
            found.location,
            f"`//` rounds {found.of} down to a whole number",
            help="divide with `/`",
            claim=Claim(found.divided),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("divide with `/`", fixes.Replace(finding.location, finding.claim.code), safe=False)
