"""Losses are summed or collected together with their graphs.

A tensor keeps its autograd graph alive, even after `backward`. A sum or a list of losses that outlives the iteration
holds the graphs of all batches so far: memory grows with every step, and a long run runs out of memory.

## Bad

    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss  # <- retained-graph
    print(total / len(loader))

A list of losses keeps them as well:

    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        losses.append(loss)  # <- retained-graph
        loss.backward()
        optimizer.step()

## Good

    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(total / len(loader))

`total += loss.item()` works as well. For the list:

    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()

## When it is fine

Several losses may be summed for one backward pass:

    for x, y in loader:
        optimizer.zero_grad()
        total = 0
        for part, labels in zip(x.split(8), y.split(8)):
            total = total + criterion(net(part), labels)
        total.backward()
        optimizer.step()

A Python number has no graph, and neither has a sum computed with autograd disabled:

    running, total = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
        with torch.no_grad():
            total += loss

A list that is reset in each iteration keeps at most one graph:

    for x, y in loader:
        losses = []
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        losses.append(loss)
        loss.backward()
        optimizer.step()

## Fix

Safe: the value is the same, and its graph is freed.

## References

PyTorch documentation, FAQ, "My model reports cuda runtime error(2): out of memory".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import lightning_steps, origins, shared_passes, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)
from lintrain.source import places
from lintrain.source.nodes import unparse


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the value that is added; `is_occasional`: in some iterations only, as in `if step % 10 == 0`."""

    added: str
    is_occasional: bool = False


class RetainedGraph(Rule[Claim]):
    level = Level.WARNING
    keywords = "backward|training_step"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._report_step(each) for each in lightning_steps.kept_losses(pipeline))
        if not training_loops.writes_loops(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        stepping = {id(step.loops[-1]) for step in pipeline.acts(Act.STEP) if step.loops}
        for kept in pipeline.acts(Act.RETAIN):
            if all(loop.runs_once for loop in kept.loops) or _is_reset(pipeline, kept):
                continue
            backward = _backward_through(pipeline, kept) if id(kept.loops[-1]) in stepping else None
            if backward is not None:
                found.setdefault(kept.location, self._report(pipeline, kept, backward))
            elif id(kept.loops[-1]) in stepping and (forward := _snapshot_pass(pipeline, kept)) is not None:
                found.setdefault(kept.location, self._report_snapshot(pipeline, kept, forward))
        yield from found.values()

    def _report_snapshot(self, pipeline: Pipeline, kept: Event, forward: Event) -> Finding[Claim]:
        added, target = pipeline.code(kept.location), training_loops.text_of_event(kept, "target")
        shown = f"`{added}`" if len(added) <= 30 else "what it gets"
        return self.finding(
            kept.location,
            f"`{target}` keeps a graph each time: {shown} is not detached",
            related=[Related(forward.location, "computed here, with a graph that no `backward` frees", "forward")],
            help=f"compute it under `torch.no_grad()`, or add `{_detached(added)}`",
            claim=Claim(added, is_occasional=True),
        )

    def _report_step(self, kept: lightning_steps.KeptLoss) -> Finding[Claim]:
        return self.finding(
            kept.location,
            f"`{kept.target}` keeps the graph of every batch: `{kept.loss}` is not detached",
            related=[Related(kept.returned, "Lightning calls `backward` on what the step returns", "backward")],
            help=f"add `{_detached(kept.loss)}`",
            claim=Claim(kept.loss),
        )

    def _report(self, pipeline: Pipeline, kept: Event, backward: Event) -> Finding[Claim]:
        added, target = pipeline.code(kept.location), training_loops.text_of_event(kept, "target")
        # A meter may be given numbers elsewhere, which cannot be detached.
        is_given = target.startswith("self.") and kept.function != backward.function
        return self.finding(
            kept.location,
            f"`{target}` keeps the graph of every batch: `{added}` is not detached",
            related=[Related(backward.location, "`backward` runs through its graph here", "backward")],
            help="pass it a number, such as `loss.item()`" if is_given else f"add `{_detached(added)}`",
            claim=None if is_given else Claim(added, is_occasional=bool(_remainders(kept))),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.loop is not None and evidence.loop.growing_graphs:
            yield self.finding(
                evidence.first("growing_graphs") or evidence.location,
                "this keeps the graph of every batch, because what it adds is not detached",
                help="add `loss.detach()` or `loss.item()`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = (
            f"{loop.kept_old_graphs} of {loop.backwards} backward passes found graphs of earlier passes still in memory"
        )
        if loop.kept_old_graphs:
            return Verdict.confirmed(text, kept_old_graphs=loop.kept_old_graphs)
        if finding.claim is not None and finding.claim.is_occasional:
            # One graph that is kept at the first step is not known from that of the first batch, which a probe holds.
            return Verdict.inconclusive(f"{text}, and this line keeps only one in several")
        return Verdict.refuted(text, backwards=loop.backwards) if loop.backwards > 2 else Verdict.inconclusive(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        detached = _detached(finding.claim.added)
        return fixes.Fix.of(f"add `{detached}`", fixes.Replace(finding.location, detached), safe=True)


def _detached(code: str) -> str:
    is_simple = code.replace(".", "").replace("_", "").isalnum()
    return f"{code}.detach()" if is_simple else f"({code}).detach()"


def _backward_through(pipeline: Pipeline, kept: Event) -> Event | None:
    """The backward call in the same iteration that runs through the graph of the kept value."""
    loop = kept.loops[-1]
    if kept.without_grad:
        return None
    # What is not known at all is one value, whatever it was: it says nothing about a graph.
    holds = {id(part) for part in pipeline.computed_from(kept.subject) if part is not UNKNOWN}
    for backward in pipeline.acts(Act.BACKWARD):
        if _is_occasional(backward, kept):
            continue
        is_kept = "retain_graph" in pipeline.code(backward.location) or backward.loops[-1:] != (loop,)
        loss = backward.details.get("loss", backward.subject)
        if not is_kept and any(id(part) in holds for part in _with_graph(pipeline, loss)):
            return backward
        if not is_kept and (_is_judged(pipeline, kept) or _is_on_graph(pipeline, kept, backward)):
            return backward
    return None


def _is_reset(pipeline: Pipeline, kept: Event) -> bool:
    """Whether a sum is set back to 0 with each step of an optimizer that follows once in so many iterations."""
    target, loop = training_loops.text_of_event(kept, "target"), kept.loops[-1]
    reset = lazy_pattern(rf"(?m)^\s+{re.escape(target)}\s*=\s*0(?:\.0*)?\s*$")
    steps = (each for each in pipeline.acts(Act.STEP) if each.loops and each.loops[-1] is loop)
    rare = {each.location: each for step in steps for each in step.conditions if "%" in each.code}
    return bool(target) and any(reset.search(pipeline.code(each)) for each in rare)


def _is_occasional(backward: Event, kept: Event) -> bool:
    """Whether a backward call follows once in so many iterations, for a sum that needs the graphs of all of them."""
    return any("%" in each.code for each in backward.conditions if each not in kept.conditions)


def _remainders(kept: Event) -> list[str]:
    """The conditions of an iteration under which a value is kept once in so many of them."""
    return [each.code for each in kept.conditions if each.depth >= len(kept.loops) and "%" in each.code]


def _snapshot_pass(pipeline: Pipeline, kept: Event) -> Event | None:
    """The pass that a kept value is computed by, where both are done occasionally, to look at it: `if i % 100 == 0`."""
    if kept.without_grad or not _remainders(kept):
        return None
    source = pipeline.source_of(kept.location)
    node = places.expression_at(source, kept.location)
    parts = origins.origins(source, node, shared_passes.stays_on_graph) if node is not None else ()
    locations = [source.location(each.expression) for each in parts]
    for event in pipeline.events_in(kept.loops[-1]):
        is_own = event.act is Act.FORWARD and event.conditions == kept.conditions and event.order < kept.order
        if is_own and not event.without_grad and any(each.holds(event.location) for each in locations):
            return event
    return None


def _is_on_graph(pipeline: Pipeline, kept: Event, backward: Event) -> bool:
    """Whether what is kept comes out of a pass of this iteration that a backward call goes through."""
    loss, inside = backward.details.get("loss", backward.subject), kept.loops[-1]
    if isinstance(kept.subject, Tensor) and isinstance(loss, Tensor):
        return any(pipeline.events[order].is_inside(inside) for order in kept.subject.graph & loss.graph)
    source = pipeline.source_of(kept.location)
    if isinstance(kept.subject, Tensor) or not pipeline.code(kept.location).isidentifier():
        return False
    node = places.expression_at(source, kept.location)
    if node is None or _is_mapping(source, unparse(node)) or training_loops.words_of(unparse(node)) & COUNTS:
        return False
    # What nothing is known of may be the output of a model by its name: `out = model(x)`.
    events = (each for each in pipeline.events_in(inside) if each.act is Act.FORWARD and not each.without_grad)
    forwards = {each.location: each for each in events if each.order < backward.order}
    through = {each.location: each for each in shared_passes.passes_behind(pipeline, backward, forwards)}
    return bool(through) and shared_passes.is_output(source, node, through)


COUNTS = frozenset({"acc", "accuracy", "correct", "count", "counts", "hits", "metric", "metrics"})
"""Words of outputs that are counted, and so have no graph: `loss, accuracy = net(rows)`."""


def _is_mapping(source: Source, name: str) -> bool:
    """Whether code reads entries of a name by their keys: `loss, info = net(x)` with numbers in `info`."""
    return source.contains(rf"\b{name}(?:\[['\"]|\.(?:get|items|keys|values)\()")


def _is_judged(pipeline: Pipeline, kept: Event) -> bool:
    """Whether a tensor that is put behind others is the output that a loss of the same iteration is computed from."""
    if "cat" not in pipeline.source_of(kept.location).lines[kept.location.line - 1] or kept.subject is UNKNOWN:
        return False
    loop = kept.loops[-1].location
    judged = (loss for loss in pipeline.losses if loop.holds(loss.location))
    return any(loss.prediction is not None and loss.prediction.value is kept.subject for loss in judged)


def _with_graph(pipeline: Pipeline, loss: Value) -> Iterator[Value]:
    """A loss that `backward` is called on, and its parts that certainly have a graph too."""
    yield loss
    operation = pipeline.arithmetic.get(id(loss))
    if operation is None:
        return
    parts = (operation.left, operation.right)
    losses: list[Value] = [part for part in parts if isinstance(part, Tensor) and part.role is Role.LOSS]
    if not losses and operation.operator == "Add":
        losses = [part for part in parts if _is_unknown_loss(part)]
    for part in losses or ([operation.left] if operation.operator == "Div" else []):
        yield from _with_graph(pipeline, part)


LOSS = lazy_pattern(r"loss(?!es)", re.IGNORECASE)


def _is_unknown_loss(part: Value) -> bool:
    """Whether a term of the loss is one itself, as far as its name tells: what computes it is in no file here."""
    return isinstance(part, Unknown) and part is not UNKNOWN and LOSS.search(part.name) is not None
