"""A weight of a layer is replaced by numbers of another shape or type.

Nothing checks what is assigned to `weight.data`, or put into a new `nn.Parameter`. The next forward pass raises an
error about shapes or about types, or the layer computes something else than it was built for. `nn.Linear(in, out)` has
a weight of shape `(out, in)`, and NumPy computes in float64 where torch has float32.

## Bad

    layer = nn.Linear(8, 3)
    layer.weight.data = torch.ones(8, 3)  # <- mismatched-weight
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        optimizer.step()
    # raises RuntimeError: mat1 and mat2 shapes cannot be multiplied

The type of NumPy:

    layer = nn.Linear(8, 3)
    layer.bias.data = torch.tensor(np.linspace(-1, 1, 3))  # <- mismatched-weight
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        optimizer.step()
    # raises RuntimeError

## Good

    layer = nn.Linear(8, 3)
    layer.weight.data = torch.ones(3, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        optimizer.step()

and

    layer = nn.Linear(8, 3)
    layer.bias.data = torch.tensor(np.linspace(-1, 1, 3), dtype=torch.float32)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(layer(x), y).backward()
        optimizer.step()

## When it is fine

Numbers of which the shape is not known, or that are computed from the weight itself:

    layer = nn.Linear(8, 3)
    layer.weight.data = features[:3] * 0.1
    layer.bias.data = layer.bias.data * 0.5

## Fix

None: whether to transpose, convert or build another layer depends on the numbers.

## References

PyTorch documentation, `torch.nn.Linear`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import unseen_weights
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Rule,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
    one_per_location,
)

REPLACES = lazy_pattern(r"\.(?:weight|bias)(?:\.data)?[ \t]*=[^=]")
REPLACES_OF_LAYER = lazy_pattern(r"\.(?:(?<!\bself\.)(?:weight|bias)|(?:weight|bias)\.data)[ \t]*=[^=]")
"""A class that sets `self.weight` is no layer of torch. A pattern that begins with a dot is found faster."""

RAISED = ("mat1 and mat2", "dtype", "expected scalar type", "shape", "size")
"""Parts of the error messages of PyTorch for a weight that does not fit."""


class MismatchedWeight(Rule):
    level = Level.ERROR
    keywords = "weight|bias"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(REPLACES_OF_LAYER)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(each) for each in unseen_weights.misfits(pipeline))

    def _report(self, found: unseen_weights.Misfit) -> Finding:
        name = found.weight if len(found.weight) <= 30 else "the weight"
        return self.finding(
            found.location,
            f"`{name}` has {found.has}, but gets {found.gets}",
            help="give the weight numbers of the shape and type that its layer has",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        failure = evidence.failure
        if failure is None or failure.location is None or not REPLACES.search(failure.code):
            return
        weights = [value for value in failure.given if value.name.endswith((".weight", ".bias"))]
        others = [value for value in failure.given if value.kind == "tensor" and value not in weights]
        if any((one.shape, one.dtype) != (other.shape, other.dtype) for one in weights for other in others):
            yield self.finding(
                failure.location,
                "this weight gets numbers of another shape or type",
                help="give the weight numbers of the shape and type that its layer has",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0]}`")
        if evidence.loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        passes = evidence.loop.backwards
        outcome = Verdict.refuted if passes else Verdict.inconclusive
        return outcome(f"{passes} backward passes ran through the layer", backwards=passes)
