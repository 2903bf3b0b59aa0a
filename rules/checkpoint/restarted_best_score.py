"""A resumed run starts again with its first best score, although the checkpoint holds the one it had.

The first epoch after the resume is the best one then, whatever its score. The file of the best weights is replaced by
worse ones, and patience is counted from there. No error is raised.

## Bad

    best, start = 0.0, 0  # <- restarted-best-score
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        score = float((net(x).argmax(1) == y).float().mean())
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best": best}
        torch.save(state, "last.pt")

## Good

    best, start = 0.0, 0
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
        best = saved["best"]
    for epoch in range(start, epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        score = float((net(x).argmax(1) == y).float().mean())
        if score > best:
            best = score
            torch.save(net.state_dict(), "best.pt")
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "best": best}
        torch.save(state, "last.pt")

## When it is fine

A checkpoint that is read to evaluate it, not to go on:

    best = 0.0
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        score = float((net(x).argmax(1) == y).float().mean())
        if score > best:
            best = score
            torch.save({"net": net.state_dict(), "epoch": epoch, "best": best}, "best.pt")
    net.load_state_dict(torch.load("best.pt")["net"])

## Fix

None: the score may have to be read in another function.

## References

The ImageNet example of PyTorch, `main.py`, which reads `checkpoint["best_acc1"]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import resumes
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class RestartedBestScore(Rule):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "save & load"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, resumes.restarted_scores(pipeline.source)))

    def _report(self, found: resumes.RestartedScore) -> Finding:
        shown = f"`{found.best}`" if len(found.best) <= SHOWN else "the best score"
        return self.finding(
            found.location,
            f"{shown} starts again here when the run resumes",
            related=[
                Related(found.saved, "saved here, and never read", "saved"),
                Related(found.resumed, "the run resumes from here", "resumed"),
            ],
            help=f'read it with the rest of the checkpoint: `checkpoint["{found.key}"]`',
        )


SHOWN = 24
"""So many characters of code fit into a message."""
