"""`WeightedRandomSampler` gets a weight for each class instead of one for each row.

The sampler returns positions in its weights. With three weights for three classes it returns 0, 1 and 2, so training
sees the first three rows of the data set, again and again. No error is raised.

## Bad

    from torch.utils.data import TensorDataset, WeightedRandomSampler

    kinds = torch.randint(0, 3, (48,))
    counts = torch.bincount(kinds, minlength=3)
    weights = 1.0 / counts.clamp(min=1)
    sampler = WeightedRandomSampler(weights, num_samples=len(kinds))  # <- class-weights-in-sampler
    for x, y in DataLoader(TensorDataset(torch.randn(48, 8), kinds), batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    from torch.utils.data import TensorDataset, WeightedRandomSampler

    kinds = torch.randint(0, 3, (48,))
    counts = torch.bincount(kinds, minlength=3)
    weights = 1.0 / counts.clamp(min=1)
    sampler = WeightedRandomSampler(weights[kinds], num_samples=len(kinds))
    for x, y in DataLoader(TensorDataset(torch.randn(48, 8), kinds), batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

A weight for each row, from a list:

    from torch.utils.data import TensorDataset, WeightedRandomSampler

    kinds = torch.randint(0, 3, (48,))
    counts = torch.bincount(kinds, minlength=3)
    weights = [1.0 / max(int(counts[kind]), 1) for kind in kinds]
    sampler = WeightedRandomSampler(weights, num_samples=len(kinds))
    for x, y in DataLoader(TensorDataset(torch.randn(48, 8), kinds), batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: the labels of the rows may have any name.

## References

PyTorch documentation, `torch.utils.data.WeightedRandomSampler`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import sampler_weights
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class ClassWeightsInSampler(Rule):
    level = Level.ERROR
    keywords = "WeightedRandomSampler"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(sampler_weights.class_weights(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, sampler_weights.class_weights(pipeline.source)))

    def _report(self, found: sampler_weights.ClassWeights) -> Finding:
        shown = f"`{found.code}`" if len(found.code) <= SHOWN else "this"
        return self.finding(
            found.location,
            f"{shown} has a weight for each class, not one for each row",
            related=[Related(found.counted, "one number for each class", "counts")],
            help="index the weights with the class of each row: `weights[labels]`",
        )


SHOWN = 24
"""So many characters of code fit into a message."""
