"""A model is kept where its score beats the best one so far, and that best score never changes.

Each score that beats the first value counts as the best, so every later model replaces a better one, and the file named
`best.pt` holds one of the last epochs. Early stopping by that score never stops. Often another name gets the new value.

## Bad

    best_accuracy = 0.0
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        accuracy = (net(features).argmax(1) == targets).float().mean().item()
        if accuracy > best_accuracy:  # <- stale-best-score
            torch.save(net.state_dict(), "best.pt")

Another name gets the score:

    best_val_loss = float("inf")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        val_loss = criterion(net(features), targets).item()
        if val_loss < best_val_loss:  # <- stale-best-score
            best_loss = val_loss
            torch.save(net.state_dict(), "best.pt")

A loss starts at 0, and no loss is lower:

    lowest_loss = 0.0  # <- stale-best-score
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        val_loss = F.cross_entropy(net(features), targets).item()
        if val_loss < lowest_loss:
            lowest_loss = val_loss
            torch.save(net.state_dict(), "best.pt")

## Good

    best_accuracy = 0.0
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        accuracy = (net(features).argmax(1) == targets).float().mean().item()
        if accuracy > best_accuracy:
            best_accuracy = accuracy
            torch.save(net.state_dict(), "best.pt")

and

    best_val_loss = float("inf")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        val_loss = criterion(net(features), targets).item()
        if val_loss < best_val_loss:
            best_val_loss = val_loss
            torch.save(net.state_dict(), "best.pt")

and

    lowest_loss = float("inf")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        val_loss = F.cross_entropy(net(features), targets).item()
        if val_loss < lowest_loss:
            lowest_loss = val_loss
            torch.save(net.state_dict(), "best.pt")

## When it is fine

The best score is updated in another statement, or a limit is compared:

    best_loss, target_accuracy = float("inf"), 0.9
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        loss = criterion(net(features), targets).item()
        if loss < best_loss:
            torch.save(net.state_dict(), "best.pt")
        best_loss = min(loss, best_loss)
        accuracy = (net(features).argmax(1) == targets).float().mean().item()
        if accuracy > target_accuracy:
            torch.save(net.state_dict(), "good.pt")

## Fix

None: if another name gets the score, that name may be the mistake.

## References

PyTorch tutorials, "Transfer Learning for Computer Vision": `if epoch_acc > best_acc: best_acc = epoch_acc`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule as schedule
from lintrain.analysis import unreachable_bests
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class StaleBestScore(Rule):
    level = Level.ERROR
    keywords = "best|Best|BEST|lowest|highest|min_|max_|_min|_max"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, schedule.never_updated(pipeline.source)))
        yield from map(self._report_zero, unreachable_bests.unreachable_bests(pipeline))

    def _report_zero(self, found: unreachable_bests.UnreachableBest) -> Finding:
        shown = f"`{found.best}`" if len(found.best) <= 24 else "the lowest loss"
        return self.finding(
            found.location,
            f"{shown} starts at 0, and no loss is lower",
            related=[Related(found.test, "never true", "test")],
            help=f'begin with `{found.best} = float("inf")`',
            why="No epoch counts as the best, so no model is kept, and early stopping counts every epoch as a failure.",
            subject=found.best,
        )

    def _report(self, found: schedule.NeverUpdated) -> Finding:
        shown = f"`{found.best}`" if len(found.best) <= 20 else "the best score"
        return self.finding(
            found.location,
            f"{shown} keeps its first value, so later models replace better ones",
            related=[Related(found.start, "its only value", "start")],
            help=f"set `{found.best} = {found.value}` below this line",
            subject=found.best,
        )
