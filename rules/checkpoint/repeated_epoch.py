"""A resumed run begins with the epoch that its checkpoint was saved after, and trains it again.

The checkpoint holds the number of an epoch that is over, and the loop starts with that number. Each resumption repeats
an epoch: its rows count twice, the schedule runs one step further than the epochs, and logs hold the epoch twice. No
error is raised.

## Bad

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net_state"])
        optimizer.load_state_dict(saved["steps"])
        start = saved["epoch"]  # <- repeated-epoch
    for epoch in range(start, 3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        state = {"net_state": net.state_dict(), "steps": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Good

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net_state"])
        optimizer.load_state_dict(saved["steps"])
        start = saved["epoch"] + 1
    for epoch in range(start, 3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        state = {"net_state": net.state_dict(), "steps": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## When it is fine

The next epoch is saved:

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net_state"])
        optimizer.load_state_dict(saved["steps"])
        start = saved["epoch"]
    for epoch in range(start, 3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        state = {"net_state": net.state_dict(), "steps": optimizer.state_dict(), "epoch": epoch + 1}
        torch.save(state, "last.pt")

A checkpoint within an epoch, which is not over yet:

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net_state"])
        optimizer.load_state_dict(saved["steps"])
        start = saved["epoch"]
    for epoch in range(start, 3):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            if step % 100 == 0:
                state = {"net_state": net.state_dict(), "steps": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, "last.pt")

## Fix

None: the number may be corrected where it is saved or where it is read, and earlier checkpoints hold the old one.

## References

PyTorch examples, `imagenet/main.py`: saves `epoch + 1`, and resumes with `args.start_epoch = checkpoint['epoch']`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import resumed_epochs
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class RepeatedEpoch(Rule):
    level = Level.WARNING
    keywords = "range( & epoch|Epoch & torch.load|load_checkpoint|restore|resume & save"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, resumed_epochs.repeated_epochs(pipeline.source)))

    def _report(self, found: resumed_epochs.RepeatedEpoch) -> Finding:
        shown = f"`{found.start}`" if len(found.start) <= 24 else "this"
        return self.finding(
            found.location,
            f"{shown} is the epoch that was finished before the checkpoint was saved",
            related=[Related(found.saved, "saved after this epoch", "saved")],
            help=f"start with the next one: `{found.read} + 1`",
            subject=found.start,
        )
