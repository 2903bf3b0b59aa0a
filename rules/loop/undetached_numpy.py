"""The output of a network becomes a NumPy array while autograd still follows it.

NumPy cannot follow gradients, so `numpy()` of a tensor with a graph raises a RuntimeError. The line often comes after
the training, where predictions are plotted or saved, and weights that were not saved before it are lost.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    predicted = net(features).numpy()  # <- undetached-numpy
    # raises Can't call numpy() on Tensor that requires grad

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    predicted = net(features).detach().numpy()

## When it is fine

Classes have no gradient, and what `no_grad` computes has none either:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    classes = net(features).argmax(dim=1).numpy()
    with torch.no_grad():
        scores = net(features).numpy()

## Fix

Safe: `numpy()` of the tensor raises an error, and of the detached one gives its numbers.

## References

PyTorch documentation, `torch.Tensor.numpy`, `torch.no_grad`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluations, expressions, loaders
from lintrain.pipeline import modules
from lintrain.pipeline.events import Event
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.python import Function, Instance
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

RAISED = "Can't call numpy() on Tensor that requires grad"


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the call with `detach()` in front of it."""

    code: str


class UndetachedNumpy(Rule[Claim]):
    level = Level.ERROR
    keywords = ".numpy() & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[object]()
        for misuse in pipeline.misuses:
            if misuse.use != "graph to numpy" or misuse.location in seen or _is_expected(pipeline, misuse):
                continue
            forward = next((each for each in _passes_of(pipeline, misuse) if _records(pipeline, each)), None)
            if forward is not None:
                seen.add(misuse.location)
                yield self._report(pipeline, misuse, forward)

    def _report(self, pipeline: Pipeline, misuse: Misuse, forward: Event) -> Finding[Claim]:
        written = pipeline.code(misuse.location)
        code = f"{written.removesuffix('.numpy()')}.detach().numpy()"
        return self.finding(
            misuse.location,
            "`numpy()` raises an error on a tensor that requires gradients",
            related=[Related(forward.location, "computed here with gradients", "forward")],
            help="write `.detach().cpu().numpy()`, or compute it in `with torch.no_grad():`",
            claim=Claim(code) if written.endswith(".numpy()") else None,
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_at(finding.location, RAISED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the line raises {failed.failure.type}", stage=failed.name)
        stage, loop = evidence.stage("evaluation"), evidence.loop
        if loop is None or stage is None or stage.status != "passed":
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        passes = f"{loop.evaluated} {'pass' if loop.evaluated == 1 else 'passes'}"
        return Verdict.refuted(f"the script ran on through {passes} after its training, with no error")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("detach the tensor first", fixes.Replace(finding.location, finding.claim.code), safe=True)


def _is_expected(pipeline: Pipeline, misuse: Misuse) -> bool:
    return loaders.expects_error(pipeline, misuse.location)


def _passes_of(pipeline: Pipeline, misuse: Misuse) -> Iterator[Event]:
    passes = getattr(misuse.value, "graph", frozenset[int]())
    return (pipeline.events[order] for order in sorted(passes))


def _records(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass certainly leaves a graph: by a network that the script trains, in code that it runs itself."""
    is_switched = forward.switches or any("grad" in condition.code for condition in forward.conditions)
    if forward.without_grad or forward.uncalled or is_switched:
        return False
    return evaluations.is_trained(pipeline, forward.subject) and not _may_leave_graph(forward)


def _may_leave_graph(forward: Event) -> bool:
    """Whether the code of the network itself may give a tensor without a graph."""
    network = forward.subject
    found = network.cls.lookup("forward") if isinstance(network, Instance) else None
    if found is None or not isinstance(found[1], Function):
        return isinstance(network, Instance)
    return modules.LEAVES_GRAPH.search(expressions.code_of(found[1])) is not None
