"""`forward` computes the output of the network and does not return it.

Calling the network gives None, and the loss raises an error about its input in the first iteration.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            x = self.layer(x)  # <- forward-without-return

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    # raises TypeError

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            x = self.layer(x)
            return x

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

A module may keep its output as an attribute, or be a base class:

    class Recorder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            self.output = self.layer(x)

    class Base(nn.Module):
        def forward(self, x):
            raise NotImplementedError

    recorder = Recorder()
    for x, y in loader:
        recorder(x)
        criterion(recorder.output, y).backward()

## Fix

Safe: a network that gives None cannot be used. Offered if the last statement assigns one name.

## References

PyTorch documentation, `torch.nn.Module.forward`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import built_layers
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Source, Targets, Verdict, dataclass, fixes

NOTHING = "NoneType"


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the output; empty without a fix."""

    name: str


class ForwardWithoutReturn(Rule[Claim]):
    level = Level.ERROR
    keywords = "def forward|def call|_step"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(built_layers.unreturned(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in built_layers.unreturned(pipeline.source):
            name = found.cls if len(found.cls) <= 30 else "this class"
            remedy = f"end it with `return {found.name}`" if found.name else "return the output of the network"
            if found.method.endswith("_step"):
                remedy = "return the metrics: `{each.name: each.result() for each in self.metrics}`"
            yield self.finding(
                found.location,
                f"`{found.method}` of `{name}` returns nothing",
                help=remedy,
                claim=Claim(found.name),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if "forward" in evidence.locations:
            yield self.finding(
                evidence.locations["forward"],
                "this `forward` returns nothing",
                help="return the output of the network",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NOTHING)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0]}`")
        if evidence.loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        passes = evidence.loop.backwards
        outcome = Verdict.refuted if passes else Verdict.inconclusive
        return outcome(f"{passes} backward passes ran through its output", backwards=passes)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.name:
            return None
        statement = f"return {finding.claim.name}"
        return fixes.Fix.of(f"add `{statement}`", fixes.InsertAfter(finding.location, statement), safe=True)
