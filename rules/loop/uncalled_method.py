"""A method is named without its brackets, so it does not run.

`optimizer.step` without brackets is a valid statement that does nothing: the weights never change, or gradients add up,
or dropout stays on, and no error is raised. Elsewhere the method itself is used in place of its result, which mostly
raises an error: `x.cpu.numpy()`, `Adam(net.parameters)`.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step  # <- uncalled-method

The mode of the network stays as it is:

    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval  # <- uncalled-method
        with torch.no_grad():
            print(sum((net(x).argmax(1) == y).sum().item() for x, y in eval_loader))

An optimizer gets the method in place of the weights:

    optimizer = torch.optim.Adam(net.parameters, lr=1e-3)  # <- uncalled-method
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    # raises TypeError: 'method' object is not iterable

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The mode is set for each pass:

    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print(sum((net(x).argmax(1) == y).sum().item() for x, y in eval_loader))

The optimizer gets the weights:

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

A method may be handed on, and a name may hold one:

    step = optimizer.step
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        step()

## Fix

Safe: the brackets are added, since the statement or the chain has no use without them.

## References

Python language reference, "Expression statements" and "Calls".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.uncalled import Uncalled, uncalled
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes, one_per_location


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the method, without its brackets."""

    code: str


class UncalledMethod(Rule[Claim]):
    level = Level.ERROR
    keywords = "torch|nn.|backward|optimizer|lightning|keras|Trainer"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in uncalled(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._report, uncalled(pipeline.source)))

    def _report(self, found: Uncalled) -> Finding[Claim]:
        shown = found.code if len(found.code) <= 40 else f"….{found.code.rpartition('.')[2]}"
        return self.finding(
            found.location,
            f"`{shown}` has no brackets, so it " + ("does nothing" if found.does_nothing else "is not called"),
            help=f"write `{shown}()`",
            claim=Claim(found.code),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("call it", fixes.Replace(finding.location, f"{finding.claim.code}()"), safe=True)
