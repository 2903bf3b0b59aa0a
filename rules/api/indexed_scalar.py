"""A loss is indexed, but it is a single number.

Before PyTorch 0.4 a loss was a tensor with one entry, and old code reads it with `loss.data[0]`. Since then it has no
dimension, and PyTorch 0.5 and newer raise `IndexError` at the first batch.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print(loss.data[0])  # <- indexed-scalar

    # raises IndexError: invalid index of a 0-dim tensor

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())

## When it is fine

The loss has one number for each row:

    for x, y in loader:
        losses = F.cross_entropy(net(x), y, reduction="none")
        losses.mean().backward()
        print(losses.data[0])

A sum over one axis keeps the other:

    for x, y in loader:
        totals = net(x).sum(1)
        totals.mean().backward()
        print(totals.data[0])

The first value of something that is not a loss:

    from my_settings import table

    for x, y in loader:
        F.cross_entropy(net(x), y).backward()
        print(table.data[0])

## Fix

Safe: `.item()` returns the same number in every version since 0.4.

## References

PyTorch 0.4.0 migration guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, training_loops
from lintrain.pipeline import events
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

GRADIENT = lazy_pattern(r"backward\(\s*(?!\)|retain_graph|create_graph|inputs)")
"""A backward pass that gets a gradient, as only a tensor with several numbers needs."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the tensor that is indexed: `loss`."""

    tensor: str


class IndexedScalar(Rule[Claim]):
    level = Level.ERROR
    keywords = "[0]"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in script_text.reduced_items_of_data(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        learned = [
            event
            for event in pipeline.acts(events.Act.BACKWARD)
            if GRADIENT.search(pipeline.code(event.location)) is None
        ]
        losses = {training_loops.text_of_event(event) for event in learned}
        found: dict[Location, Finding[Claim]] = {}
        for misuse in pipeline.misuses:
            tensor = misuse.text.removesuffix("[0]").removesuffix(".data")
            is_number = misuse.use == "scalar index" or (misuse.use == "data index" and tensor in losses)
            if is_number and misuse.text.endswith("[0]"):
                found.setdefault(misuse.location, self._report(misuse.location, misuse.text, tensor))
        for read in _reads(pipeline, learned):
            found.setdefault(read.location, self._report(read.location, f"{read.tensor}.data[0]", read.tensor))
        yield from found.values()

    def _report(self, location: Location, text: str, tensor: str) -> Finding[Claim]:
        return self.finding(
            location,
            f"{_shown(text)} indexes a single number, which PyTorch refuses since 0.5",
            help=f"read the number with `{tensor if len(tensor) <= 32 else ''}.item()`",
            claim=Claim(tensor),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with("invalid index of a 0-dim tensor")
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed with an IndexError for a 0-dim tensor")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.steps} steps ran without an error about an index"
        return (Verdict.refuted if loop.steps else Verdict.inconclusive)(text, steps=loop.steps)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, f"{finding.claim.tensor}.item()")
        return fixes.Fix.of("use `.item()`", edit, safe=True)


def _reads(pipeline: Pipeline, learned: list[events.Event]) -> Iterator[script_text.DataIndex]:
    """The reads of `.data[0]` of a loss that a file learns from, and of sums."""
    for path, source in pipeline.sources.items():
        here = {training_loops.text_of_event(event) for event in learned if event.location.path == path}
        yield from (read for read in (script_text.first_items_of_data(source) if here else ()) if read.tensor in here)
        yield from script_text.reduced_items_of_data(source)


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 48 else "this read"
