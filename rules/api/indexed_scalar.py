"""A loss is indexed or concatenated, but it is a single number.

Before PyTorch 0.4 a loss was a tensor with one entry, and old code reads it with `loss.data[0]`. Since then it has no
dimension, and PyTorch 0.5 and newer raise `IndexError` at the first batch. `torch.cat` joins tensors along an axis that
they have, so it raises `RuntimeError` for the losses of several batches.

`evaluate` of Keras returns the loss alone if `compile` was given no metrics. `loss, accuracy = model.evaluate(…)` and
`score[1]` then raise `TypeError`, after the whole training.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print(loss.data[0])  # <- indexed-scalar

    # raises IndexError: invalid index of a 0-dim tensor

The losses of an epoch are concatenated:

    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(torch.cat(losses).mean())  # <- indexed-scalar
    # raises RuntimeError: zero-dimensional tensor (at position 0) cannot be concatenated

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())

They are stacked along a new axis:

    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(torch.stack(losses).mean())

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

Safe: `.item()` returns the same number in every version since 0.4. There is none for `torch.cat`: the losses may have
to keep an axis instead.

## References

PyTorch 0.4.0 migration guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_evaluations, script_text, training_loops
from lintrain.pipeline import blocks, events
from lintrain.pipeline.record import Misuse
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
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


EVALUATION = "evaluate"
"""The subject of a finding about the result of `evaluate`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the tensor that is indexed: `loss`; empty for tensors that are concatenated."""

    tensor: str


class IndexedScalar(Rule[Claim]):
    level = Level.ERROR
    keywords = "[0]|.cat|.concat|cat(|.evaluate("
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
            is_joined = misuse.use == "joined numbers"
            if is_joined and not blocks.expects_error(pipeline.source_of(misuse.location), misuse.location):
                found.setdefault(misuse.location, self._report_joined(pipeline, misuse))
            is_number = misuse.use == "scalar index" or (misuse.use == "data index" and tensor in losses)
            if is_number and misuse.text.endswith("[0]"):
                found.setdefault(misuse.location, self._report(misuse.location, misuse.text, tensor))
        for read in _reads(pipeline, learned):
            found.setdefault(read.location, self._report(read.location, f"{read.tensor}.data[0]", read.tensor))
        for location, code, compiled in keras_evaluations.numbers_taken_apart(pipeline):
            found.setdefault(location, self._report_evaluation(location, code, compiled))
        yield from found.values()

    def _report_evaluation(self, location: Location, code: str, compiled: Location) -> Finding[Claim]:
        shown = f"`{code}`" if len(code) <= 24 else "this"
        return self.finding(
            location,
            f"{shown} takes a single number apart: `evaluate` returns the loss alone",
            related=[Related(compiled, "compiled without metrics", "compile")],
            why="Without metrics `evaluate` of Keras returns one number. This line raises TypeError at the end.",
            help='pass `metrics=["accuracy"]` to `compile`, or read the loss alone',
            subject=EVALUATION,
        )

    def _report_joined(self, pipeline: Pipeline, misuse: Misuse) -> Finding[Claim]:
        made = misuse.value.origin
        return self.finding(
            misuse.location,
            f"`{misuse.text}` joins tensors along an axis, but these are single numbers",
            related=[Related(made, "a single number", "number")] if made is not None else [],
            help="use `torch.stack`, which makes the axis",
            claim=Claim(""),
        )

    def _report(self, location: Location, text: str, tensor: str) -> Finding[Claim]:
        return self.finding(
            location,
            f"{_shown(text)} indexes a single number, which PyTorch refuses since 0.5",
            help=f"read the number with `{tensor if len(tensor) <= 32 else ''}.item()`",
            claim=Claim(tensor),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.claim is not None and not finding.claim.tensor:
            return _verdict_on_joined(finding.location, evidence)
        if finding.subject == EVALUATION:
            return Verdict.inconclusive("what the script does after its training is not run")
        failed = evidence.failed_with("invalid index of a 0-dim tensor")
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed with an IndexError for a 0-dim tensor")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.steps} steps ran without an error about an index"
        return (Verdict.refuted if loop.steps else Verdict.inconclusive)(text, steps=loop.steps)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.tensor:
            return None
        edit = fixes.Replace(finding.location, f"{finding.claim.tensor}.item()")
        return fixes.Fix.of("use `.item()`", edit, safe=True)


def _verdict_on_joined(location: Location, evidence: Evidence) -> Verdict:
    failure = evidence.failure
    is_here = failure is not None and failure.location is not None and failure.location.meets(location)
    if failure is not None and is_here and "zero-dimensional tensor" in failure.message:
        return Verdict.confirmed("the run ended with 1 RuntimeError about a zero-dimensional tensor")
    loop = evidence.loop
    # A loop that ended without a second round: the script went on behind it, to its end.
    is_at_end = failure is None and loop is not None and loop.ended and not loop.came_round
    if is_at_end or evidence.ran(location):
        return Verdict.refuted("the script went past the call with 0 errors")
    return Verdict.inconclusive("the run made 0 such calls")


def _reads(pipeline: Pipeline, learned: list[events.Event]) -> Iterator[script_text.DataIndex]:
    """The reads of `.data[0]` of a loss that a file learns from, and of sums."""
    for path, source in pipeline.sources.items():
        here = {training_loops.text_of_event(event) for event in learned if event.location.path == path}
        yield from (read for read in (script_text.first_items_of_data(source) if here else ()) if read.tensor in here)
        yield from script_text.reduced_items_of_data(source)


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 48 else "this read"
