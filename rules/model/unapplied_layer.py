"""A layer or loss gets tensors in its constructor, so it is built and not applied.

Classes such as `nn.Softmax` and `nn.CrossEntropyLoss` take settings when they are created and tensors when they are
called. The result here is a module, and the next operation on it raises an error about the class.

## Bad

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return nn.Sigmoid(self.layer(x))  # <- unapplied-layer

    gate = Gate()
    for x, y in loader:
        gate(x)
    # raises TypeError

A loss that is built with its inputs fails already there:

    for x, y in loader:
        loss = nn.CrossEntropyLoss(net(x), y)  # <- unapplied-layer
        loss.backward()
    # raises RuntimeError

## Good

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return nn.Sigmoid()(self.layer(x))

    gate = Gate()
    for x, y in loader:
        gate(x)

and

    for x, y in loader:
        loss = nn.CrossEntropyLoss()(net(x), y)
        loss.backward()

## When it is fine

Settings that come in by a name, and a layer that is built and called in one expression:

    class Scores(nn.Module):
        def __init__(self, weight=None, size_average=None):
            super().__init__()
            self.loss = nn.NLLLoss(weight, size_average)
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            axis = -1
            return nn.LogSoftmax(axis)(self.layer(x))

    scores = Scores()
    for x, y in loader:
        scores.loss(scores(x), y).backward()

## Fix

Safe: a module in place of a tensor raises an error at its first use.

## References

PyTorch documentation, `torch.nn.Sigmoid`, `torch.nn.CrossEntropyLoss`; the fix in `IBM/pytorch-seq2seq`,
commit 539fbc16ad96.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import built_layers
from lintrain.evidence.stages import Failure, GivenValue
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Source, Targets, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The call that applies a layer: `nn.Sigmoid()(x)`."""

    code: str


class UnappliedLayer(Rule[Claim]):
    level = Level.ERROR
    keywords = "nn|Loss"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(built_layers.may_build_from_tensors)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in built_layers.unapplied(pipeline):
            code = f"{found.callee}()({found.given})"
            kind = "the inputs of a loss" if found.is_loss else "a tensor"
            yield self.finding(
                found.location,
                f"`{found.name}` gets {kind} as its settings, and is not applied",
                help=f"apply it: `{code}`" if len(code) <= 60 else f"apply it: `{found.callee}()(…)`",
                claim=Claim(code),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failure = _failure(evidence)
        if failure is not None and failure.location is not None:
            yield self.finding(
                failure.location,
                "the class of a layer or loss gets tensors as its settings, and is not applied",
                help="make it first, and call it with the tensors: `Loss()(outputs, labels)`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failure = _failure(evidence)
        if failure is not None:
            return Verdict.confirmed(f"its constructor got {len(_tensors(failure))} tensors and failed")
        return Verdict.inconclusive("no constructor of a layer failed")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("apply the layer", fixes.Replace(finding.location, finding.claim.code), safe=True)


def _failure(evidence: Evidence) -> Failure | None:
    """The error in a constructor of torch's layers and losses that got tensors."""
    failure = evidence.failure
    frames = failure.frames if failure is not None else ()
    is_made = any("torch/nn/modules/" in frame and " in __init__" in frame for frame in frames)
    return failure if failure is not None and is_made and _tensors(failure) else None


def _tensors(failure: Failure) -> list[GivenValue]:
    return [value for value in failure.given if value.kind == "tensor" and not value.function]
