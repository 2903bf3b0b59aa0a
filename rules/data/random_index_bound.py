"""A random index into a sequence can be its length, which is past its end, or is never that of its last item.

`random.randint(0, n)` includes n, and `np.random.randint(0, n)`, `torch.randint` and `random.randrange` do not. With
the first, a run fails at a random moment, in a batch among thousands. With the others and `n - 1`, the last row, class
or action never occurs in training.

## Bad

    import random

    random.seed(0)
    for step in range(4):
        row = random.randint(0, len(targets))  # <- random-index-bound
        loss = criterion(net(features[step : step + 1]), targets[row].reshape(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

The bound of NumPy and torch is no result itself:

    for step in range(4):
        rows = torch.randint(0, len(features) - 1, (16,))  # <- random-index-bound
        optimizer.zero_grad()
        criterion(net(features[rows]), targets[rows]).backward()
        optimizer.step()

## Good

    import random

    random.seed(0)
    for step in range(4):
        row = random.randint(0, len(targets) - 1)
        loss = criterion(net(features[step : step + 1]), targets[row].reshape(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

and

    for step in range(4):
        rows = torch.randint(0, len(features), (16,))
        optimizer.zero_grad()
        criterion(net(features[rows]), targets[rows]).backward()
        optimizer.step()

## When it is fine

The last item has no next one, which is read, too:

    for step in range(4):
        row = int(torch.randint(0, len(features) - 1, (1,)))
        optimizer.zero_grad()
        (net(features[row]) - net(features[row + 1])).square().mean().backward()
        optimizer.step()

## Fix

Asks first: the fixed script samples other rows.

## References

Python documentation, `random.randint`; NumPy documentation, `numpy.random.randint`; PyTorch documentation,
`torch.randint`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.random_indices import RandomIndex, wrong_random_indices
from lintrain.rule import (
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The bound, and the code of the right one."""

    bound: Location
    right: str


class RandomIndexBound(Rule[Claim]):
    level = Level.WARNING
    keywords = "randint|randrange|integers|choice"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in wrong_random_indices(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._report, wrong_random_indices(pipeline.source)))

    def _report(self, found: RandomIndex) -> Finding[Claim]:
        shown = f"`{found.sequence}`" if len(found.sequence) <= 30 else "the sequence"
        return self.finding(
            found.location,
            f"this index may be `len({found.sequence})`, which is past the end"
            if found.is_past_end and len(found.sequence) <= 30
            else "this index may be past the end of the sequence"
            if found.is_past_end
            else f"this is never the index of the last item of {shown}",
            related=[Related(found.used, "used as an index here", "use")],
            help=f"write `{found.right}` as the bound",
            claim=Claim(found.bound, found.right),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("correct the bound", fixes.Replace(finding.claim.bound, finding.claim.right), safe=False)
