"""A second `backward` goes through a graph that the first one has freed.

`backward` frees the graph that it goes through. If two losses of an iteration use the output of the same forward pass,
or each iteration that of one before the loop, the second call raises an error: *Trying to backward through the graph a
second time*.

## Bad

    judge = nn.Linear(3, 1)
    judge_optimizer = torch.optim.Adam(judge.parameters())
    for x, y in loader:
        made = net(x)
        score = judge(made.detach()).mean()
        judge_optimizer.zero_grad()
        score.backward()
        judge_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(made, y) - score
        loss.backward()  # <- freed-graph
        optimizer.step()
    # raises RuntimeError: Trying to backward through the graph a second time

## Good

    judge = nn.Linear(3, 1)
    judge_optimizer = torch.optim.Adam(judge.parameters())
    for x, y in loader:
        made = net(x)
        score = judge(made.detach()).mean()
        judge_optimizer.zero_grad()
        score.backward()
        judge_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(made, y) - judge(made).mean()
        loss.backward()
        optimizer.step()

## When it is fine

The first call keeps the graph:

    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        criterion(logits, y).backward(retain_graph=True)
        logits.pow(2).mean().backward()
        optimizer.step()

Each loss has a forward pass of its own:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        criterion(net(x + 0.1), y).backward()
        optimizer.step()

## Fix

None: run the model again, detach its output, or add the losses.

## References

PyTorch documentation, `torch.autograd.backward`; the fix in `leftthomas/SRGAN`, commit 59ed7f361aa2.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import iterations, policy_ratios, shared_passes, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Tensor
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

SECOND_TIME = "Trying to backward through the graph a second time"
KEEPS = ("retain", "create_graph", "inputs")
"""Arguments of `backward` with which it keeps the graph, or does not go through all of it."""


class FreedGraph(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        known = (
            (first, second, forward)
            for second in pipeline.acts(Act.BACKWARD)
            for first, forward in _freed_by(pipeline, second)
        )
        by_text = ((first, second, forward) for forward, first, second in shared_passes.shared_passes(pipeline))
        yield from one_per_location(
            chain(
                (self._report(*each) for each in chain(known, by_text)),
                (self._report_outer(*each) for each in shared_passes.outer_passes(pipeline)),
                map(self._report_stored, policy_ratios.kept_graphs(pipeline.source)),
            )
        )

    def _report_outer(self, forward: Event, backward: Event) -> Finding:
        return self.finding(
            backward.location,
            "each iteration goes through the graph that the first one has freed",
            related=[Related(forward.location, "runs once, before the loop", "forward")],
            help="run this forward pass in the loop",
        )

    def _report_stored(self, kept: policy_ratios.KeptGraph) -> Finding:
        return self.finding(
            kept.location,
            "this is stored with its graph, which the first `backward` of the update frees",
            related=[Related(kept.ratio, "each round goes back through it", "ratio")],
            help="collect experience under `torch.no_grad()`, or store it with `detach()`",
        )

    def _report(self, first: Event, second: Event, forward: Event) -> Finding:
        return self.finding(
            second.location,
            "this `backward` goes through a graph that an earlier one has freed",
            related=[
                Related(first.location, "frees the graph", "first"),
                Related(forward.location, "both losses use this forward pass", "forward"),
            ],
            help="run the forward pass again for this loss, or add the losses",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        loop, stage = evidence.loop, evidence.failed_with(SECOND_TIME)
        if loop is None or stage is None or stage.failure is None:
            return
        # A later batch fails where a value carries the graph of an earlier one: `reused-graph`.
        is_carried = loop.batches > 1 or any(value.kind == "kept" for value in stage.failure.given)
        if (location := stage.failure.location) is not None and loop.backwards > 1 and not is_carried:
            yield self.finding(
                location,
                "this `backward` goes through a graph that an earlier one has freed",
                help="run the forward pass again for this loss, or add the losses",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.failed_with(SECOND_TIME):
            return Verdict.confirmed(f"`{SECOND_TIME}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} backward passes ran, each with its own graph"
        return Verdict.refuted(text, backwards=loop.backwards) if loop.backwards > 1 else Verdict.inconclusive(text)


def _freed_by(pipeline: Pipeline, second: Event) -> Iterator[tuple[Event, Event]]:
    """The earlier call of the same iteration that has freed a part of a loss's graph, with that forward pass."""
    passes = _passes_of(second)
    for first in pipeline.acts(Act.BACKWARD) if passes and second.loops else ():
        common = passes & _passes_of(first)  # asked first: of two losses in a long file few have a pass in common
        if not common or first.order >= second.order or first.location == second.location:
            continue
        if not _is_before(pipeline, first, second):
            continue
        shared = [pipeline.events[order] for order in sorted(common)]
        inside = [each for each in shared if first.loops[-1] in each.loops and each.order < first.order]
        if inside and not _may_be_frozen(pipeline, inside[0]):
            yield first, inside[0]
            return


def _passes_of(backward: Event) -> frozenset[int]:
    """The forward passes in the graph of a loss that `backward` is called on without further arguments."""
    loss = backward.details.get("loss")
    return loss.graph if isinstance(loss, Tensor) and loss is backward.subject else frozenset()


def _is_before(pipeline: Pipeline, first: Event, second: Event) -> bool:
    """Whether one call certainly runs before another in the same iteration, and frees its graph."""
    if any(word in pipeline.code(first.location) for word in KEEPS) or not first.loops:
        return False
    is_same_iteration = first.loops == second.loops[: len(first.loops)]
    return is_same_iteration and not iterations.contradict(first, second) and first.reading == second.reading


def _may_be_frozen(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a forward pass may have no graph, since parameters are frozen."""
    return any(training_loops.touches(pipeline, event, forward.subject) for event in pipeline.acts(Act.FREEZE))
