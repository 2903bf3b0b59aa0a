"""A training loop returns in its first iteration.

The `return` is indented too far: it belongs to the body of the loop, so the function trains on one batch or for one
epoch, and returns. The training ends early without an error, and an average over the batches has one of them.

## Bad

    def train_epoch(net, optimizer):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
            return total / len(loader)  # <- early-return

    print(train_epoch(net, optimizer))

All epochs but the first are left out:

    def train(net, optimizer, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()
            return net  # <- early-return

    net = train(net, optimizer, 3)

## Good

    def train_epoch(net, optimizer):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(loader)

    print(train_epoch(net, optimizer))

All epochs are trained:

    def train(net, optimizer, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()
        return net

    net = train(net, optimizer, 3)

## When it is fine

A function that returns under a condition, or that is about a single batch:

    def train(net, optimizer, target):
        for epoch in range(3):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(net(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            if total < target:
                return net
        return net

    def train_on_first_batch(net, optimizer):
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            return losses

    train(net, optimizer, 0.1)

## Fix

None: what follows the loop may depend on where the `return` is.

## References

Python language reference, "The return statement".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import early_returns
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the loop iterates over batches, and not over epochs or steps."""

    is_over_batches: bool


class EarlyReturn(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward & step & return & for"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(early_returns.early_returns(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in early_returns.early_returns(pipeline.source):
            message = (
                f"returns `{found.total}` after the first batch"
                if found.total
                else "returns in the first iteration of this loop"
            )
            yield self.finding(
                found.location,
                message,
                related=[Related(found.loop, "trains once and not again", "loop")],
                help="indent the `return` less, so that it follows the loop",
                claim=Claim(bool(found.total)),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        planned = loop.loader.batches if loop is not None and loop.loader is not None else None
        if loop is None or not planned:
            return Verdict.inconclusive(evidence.without_loop)
        is_over_batches = finding.claim is not None and finding.claim.is_over_batches
        goes_on = loop.batches > 1 if is_over_batches else loop.came_round
        rounds = "more than once" if loop.came_round else "once"
        text = f"the loop took {loop.batches} of {planned} batches, and went over them {rounds}"
        if goes_on:
            return Verdict.refuted(text, batches=loop.batches)
        if loop.ended and planned > 1:
            return Verdict.confirmed(text, batches=loop.batches)
        return Verdict.inconclusive(text)
