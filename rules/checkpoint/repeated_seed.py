"""A constant seed is set again in each epoch, or for each row, which gets the same random numbers every time.

Inside the training loop, a constant seed gives every epoch the same order of rows, the same dropout, the same crops and
the same noise. In `__getitem__`, it gives every row the same augmentation. No error is raised.

## Bad

    for epoch in range(3):
        torch.manual_seed(0)  # <- repeated-seed
        order = torch.randperm(len(features))
        for rows in order.split(16):
            optimizer.zero_grad()
            criterion(net(features[rows]), targets[rows]).backward()
            optimizer.step()

Every row gets the same noise:

    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return len(features)

        def __getitem__(self, index):
            torch.manual_seed(0)  # <- repeated-seed
            return features[index] + torch.randn(8), targets[index]

    for x, y in DataLoader(Noisy(), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    for epoch in range(3):
        torch.manual_seed(1000 + epoch)
        order = torch.randperm(len(features))
        for rows in order.split(16):
            optimizer.zero_grad()
            criterion(net(features[rows]), targets[rows]).backward()
            optimizer.step()

## When it is fine

Several networks are trained, each from the same start:

    for rate in (0.1, 0.01):
        torch.manual_seed(0)
        small = nn.Linear(8, 3)
        sgd = torch.optim.SGD(small.parameters(), lr=rate)
        for rows in torch.randperm(len(features)).split(16):
            sgd.zero_grad()
            criterion(small(features[rows]), targets[rows]).backward()
            sgd.step()

## Fix

None: the seed may belong before the loop, or be made from the epoch.

## References

PyTorch documentation, "Reproducibility" and `torch.manual_seed`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import constant_seeds
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets


class RepeatedSeed(Rule):
    level = Level.WARNING
    keywords = "seed"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(constant_seeds.repeated_seeds(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in constant_seeds.repeated_seeds(pipeline.source):
            where = "before the loop" if found.each == "round" else "once, at the start of the script"
            yield self.finding(
                found.location,
                f"each {found.each} starts the same random numbers again",
                related=[Related(found.repeats, "it repeats here", "loop")],
                help=f"set the seed {where}, or make it from the epoch: `seed + epoch`",
            )
