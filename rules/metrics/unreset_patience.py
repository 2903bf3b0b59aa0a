"""A counter of epochs without improvement is not set back to 0 when the score improves.

Patience is meant for epochs in a row. A counter that goes on counts all epochs that were not the best one, so training
stops early although the model still improves. No error is raised, and the last epochs are missing.

## Bad

    best, waited = float("inf"), 0
    for epoch in range(20):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < best:
            best = total
        else:
            waited += 1  # <- unreset-patience
            if waited >= 3:
                break

## Good

    best, waited = float("inf"), 0
    for epoch in range(20):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < best:
            best = total
            waited = 0
        else:
            waited += 1
            if waited >= 3:
                break

## When it is fine

The epochs since the best one:

    best, best_epoch = float("inf"), 0
    for epoch in range(20):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < best:
            best, best_epoch = total, epoch
        elif epoch - best_epoch >= 3:
            break

## Fix

None: the counter starts at another value if it counts down.

## References

Prechelt, "Early Stopping - But When?": training stops when the error increased in a number of successive strips.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import patience
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class UnresetPatience(Rule):
    level = Level.ERROR
    keywords = "break|stop|exit|raise|while"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(patience.never_reset(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, patience.never_reset(pipeline.source)))

    def _report(self, found: patience.NeverReset) -> Finding:
        shown = f"`{found.counter}`" if len(found.counter) <= SHOWN else "the counter"
        return self.finding(
            found.location,
            f"{shown} is not set back when `{found.best}` improves"
            if len(found.best) <= SHOWN
            else f"{shown} is not set back when the score improves",
            related=[Related(found.stops, "stops the training", "stop")],
            help="set it back to its first value where the best score is updated",
        )


SHOWN = 24
"""So many characters of code fit into a message."""
