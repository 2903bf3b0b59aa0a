"""The training loop never uses the batches that it iterates over.

The loop binds each batch to a name, but the model gets other tensors, which are the same in every iteration. The
network overfits those rows, often the ones of an earlier cell, and the loss falls as if the training worked.

## Bad

    x, y = features[:16], targets[:16]
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)  # <- unused-batch
        loss.backward()
        optimizer.step()

## Good

    x, y = features[:16], targets[:16]
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(net(inputs), labels)
        loss.backward()
        optimizer.step()

## When it is fine

A loop that counts repeats the same step on purpose:

    x, y = features[:16], targets[:16]
    for step in range(10):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The batch is read under another name:

    for batch in loader:
        x, y = batch
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: which of the names the model should get is for the author to say.

## References

PyTorch documentation, `torch.utils.data.DataLoader`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loaders, training_loops
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

FEWEST = 2
"""Batches that got the tensors of the one before: one may be a sanity check."""
NEAR = 1e-4


class UnusedBatch(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        yield from one_per_location(self._report(pipeline, unused) for unused in loaders.unused_batches(pipeline))

    def _report(self, pipeline: Pipeline, unused: loaders.UnusedBatch) -> Finding:
        bound, given = (_shown(names) for names in (unused.names, unused.given))
        model = training_loops.callee_text(pipeline, unused.forward) or "the model"
        return self.finding(
            unused.forward.location,
            f"`{model}` gets {given} in every iteration, and never {bound}",
            related=[Related(unused.loop.location, "binds a batch that nothing reads", "loop", unused.loop.header)],
            help=f"pass what the loop gives: {bound}",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        location = evidence.first("same_inputs")
        if location is not None and _same_inputs(evidence):
            yield self.finding(
                location,
                "the model gets the same tensors for every batch of the loader",
                help="pass what the loop gives",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if loop.batches <= FEWEST:
            return Verdict.inconclusive(f"only {loop.batches} batches were taken")
        text = f"for {loop.same_inputs} of {loop.batches} batches, model and loss got the tensors of the batch before"
        if _same_inputs(evidence):
            return Verdict.confirmed(text, same=loop.same_inputs)
        return (Verdict.inconclusive if loop.same_inputs else Verdict.refuted)(text, same=loop.same_inputs)


def _same_inputs(evidence: Evidence) -> int:
    """So many batches were trained on the tensors of the batch before, and by a loss of these alone."""
    loop, forward = evidence.loop, evidence.forward
    if loop is None or forward is None or not forward.losses or loop.same_inputs < FEWEST:
        return 0
    values = [loss.value for loss in loop.losses if loss.value is not None]
    is_alone = any(abs(value - forward.losses[0]) <= NEAR * abs(value) for value in values)
    return loop.same_inputs if is_alone and len(values) == 1 and loop.same_inputs >= loop.backwards - 1 else 0


def _shown(names: tuple[str, ...]) -> str:
    """The first names, short enough for a message."""
    shown = " and ".join(f"`{name}`" for name in names[:2])
    return shown if len(shown) <= 24 else f"`{names[0]}`"
