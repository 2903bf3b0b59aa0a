"""A training keeps its best weights, and the test after it measures the last ones.

The validation chooses the weights that are saved, and early stopping ends the training several epochs after them. The
published number belongs to other weights than those in the file, in general to worse ones. Code that keeps the last
weights in a file as well may test them on purpose, so that is a note.

## Bad

    test_loader = eval_loader


    def accuracy(net, rows):
        net.eval()
        with torch.no_grad():
            return sum((net(x).argmax(1) == y).float().mean().item() for x, y in rows)


    best = 0.0
    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        score = accuracy(net, loader)
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
    print(accuracy(net, test_loader))  # <- last-weights-tested

## Good

    test_loader = eval_loader


    def accuracy(net, rows):
        net.eval()
        with torch.no_grad():
            return sum((net(x).argmax(1) == y).float().mean().item() for x, y in rows)


    best = 0.0
    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        score = accuracy(net, loader)
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
    if best > 0:
        net.load_state_dict(torch.load("best.pt"))
    print(accuracy(net, test_loader))

## When it is fine

Every epoch is saved, and none is chosen:

    test_loader = eval_loader


    def accuracy(net, rows):
        net.eval()
        with torch.no_grad():
            return sum((net(x).argmax(1) == y).float().mean().item() for x, y in rows)


    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.save(net.state_dict(), "last.pt")
    print(accuracy(net, test_loader))

## Fix

None: the script may keep the weights in memory or in a file, under a name that only its author knows.

## References

PyTorch tutorials, "Transfer Learning for Computer Vision": `model.load_state_dict(torch.load(best_model_params_path))`
after the last epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import last_weights
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class LastWeightsTested(Rule):
    level = Level.WARNING
    keywords = "test & save|deepcopy|stopp|Stopp & best|Best|improv|stopp|Stopp"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, last_weights.last_tested(pipeline.source)))

    def _report(self, found: last_weights.LastTested) -> Finding:
        problem = "this test measures the last weights, not the best ones, which are kept"
        return self.finding(
            found.location,
            f"{problem} as well" if found.keeps_last else problem,
            related=[Related(found.kept, "the best weights are kept here, and never loaded", "kept")],
            help="load the best weights before the test",
            subject=found.network,
            level=Level.NOTE if found.keeps_last else Level.WARNING,
        )
