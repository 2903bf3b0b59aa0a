"""A size, a count or a bound of a slice is a float: the result of `/`, of a product with `0.8`, or of `np.ceil`.

Layers, tensors, `range` and slices accept only whole numbers. In Python 3, `/` gives a float even for `512 / 2`, and
`np.ceil` returns one too, so the line raises an error.

## Bad

    width = 16
    network = nn.Sequential(
        nn.Linear(8, width),
        nn.ReLU(),
        nn.Linear(width, width / 2),  # <- float-size
        nn.ReLU(),
        nn.Linear(8, 3),
    )
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

    # raises TypeError: empty()

A function passes its argument on to a layer:

    def scorer(width):
        return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

    network = scorer(32 / 2)  # <- float-size
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

A share of the rows:

    held_back = 0.8 * len(features)
    optimizer = torch.optim.Adam(net.parameters())
    for x in DataLoader(features[:held_back], batch_size=4):  # <- float-size
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()

    # raises TypeError: slice indices must be integers

## Good

    width = 16
    network = nn.Sequential(
        nn.Linear(8, width),
        nn.ReLU(),
        nn.Linear(width, width // 2),
        nn.ReLU(),
        nn.Linear(8, 3),
    )
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

and

    def scorer(width):
        return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

    network = scorer(32 // 2)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

and

    held_back = 0.8 * len(features)
    optimizer = torch.optim.Adam(net.parameters())
    for x in DataLoader(features[:int(held_back)], batch_size=4):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()

## When it is fine

Arguments that may be any number, and quotients that become whole numbers:

    import math

    optimizer = torch.optim.Adam(net.parameters(), lr=1 / 1000)
    smooth = nn.CrossEntropyLoss(label_smoothing=1 / 10)
    for step in range(math.ceil(len(features) / 4)):
        optimizer.zero_grad()
        smooth(net(features[:4]), torch.tensor([0, 1, 2, 0])).backward()
        optimizer.step()

## Fix

Asks first: the number is cut off, and may have been meant to be rounded up.

## References

PEP 238, "Changing the Division Operator"; the fix in `bstriner/keras-adversarial`, commit be9dbb76fb05.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import whole_numbers
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, dataclass, fixes

RAISED = ("integer", "must be tuple of ints", "failed to unpack", "must be int", "of type int", "invalid dimension")
LEAST_OF_KERAS = (3, 0)
"""Keras 2 cut floats off by itself."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of a whole number in place of the float; empty without a fix.

    `is_passed_on` if a function of the project gets the float, so that the error is elsewhere.
    """

    whole: str
    is_passed_on: bool = False


class FloatSize(Rule[Claim]):
    level = Level.ERROR
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(whole_numbers.float_sizes(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        others = [source for path, source in pipeline.sources.items() if path != pipeline.source.path]
        for found in whole_numbers.float_sizes(pipeline.source, others):
            if found.package in {"keras", "tensorflow", "tf_keras"} and not _is_refused(pipeline.targets):
                continue
            shown = f"`{found.code}`" if len(found.code) <= 32 else "this number"
            yield self.finding(
                found.location,
                f"{shown} is a float, and {found.taken_by} needs a whole number",
                related=[Related(found.computed, "computed here")] if found.computed else [],
                help=f"write `{found.whole}`" if 0 < len(found.whole) <= 48 else "use `//`, or `int(…)`",
                claim=Claim(found.whole, found.is_passed_on),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        is_passed_on = finding.claim is not None and finding.claim.is_passed_on
        failed = evidence.failed_with(*RAISED) if is_passed_on else evidence.failed_at(finding.location, *RAISED)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed with 1 error about a whole number")
        if evidence.ran(finding.location):
            return Verdict.refuted("the line ran with 0 errors about a whole number")
        return Verdict.inconclusive("the run did not reach the line: 0 errors about a whole number")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.whole:
            return None
        edit = fixes.Replace(finding.location, finding.claim.whole)
        return fixes.Fix.of(f"write `{finding.claim.whole}`", edit, safe=False)


def _is_refused(targets: Targets) -> bool:
    """Whether every version of Keras that the project may have refuses floats."""
    target = targets.get("keras")
    return target is not None and min(target.versions) >= LEAST_OF_KERAS
