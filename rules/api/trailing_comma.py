"""A comma at the end of an assignment makes a tuple of a number, a layer or a setting.

`rate = 1e-4,` is `(1e-4,)`. It comes from an argument that was moved out of a call. A layer that is a tuple cannot be
called, an optimizer refuses the rate, and a switch `use_dropout = False,` counts as true, since the tuple is not empty.

## Bad

    rate = 1e-3,  # <- trailing-comma
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    # raises TypeError: '<=' not supported between instances of 'float' and 'tuple'

## Good

    rate = 1e-3
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Sizes, arguments and what is unpacked may be tuples of one item:

    shape = 8,
    betas = 0.9,
    example = torch.zeros(shape),
    first, = [1e-3]

## Fix

Asks first: the tuple may be meant, if code unpacks it.

## References

Python documentation, "Tuples": it is the comma which makes a tuple, not the parentheses.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import bindings
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The code before the comma."""

    code: str


class TrailingComma(Rule[Claim]):
    level = Level.ERROR
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(source.cached(bindings.tuples_by_comma))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in pipeline.source.cached(bindings.tuples_by_comma):
            shown = f"`{found.target}`" if len(found.target) <= 30 else "this"
            yield self.finding(
                found.location,
                f"{shown} is a tuple: the comma at the end makes it one",
                help="remove the comma",
                subject=found.target,
                claim=Claim(found.code),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("remove the comma", fixes.Replace(finding.location, finding.claim.code), safe=False)
