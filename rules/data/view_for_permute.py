"""`view` or `reshape` is used to swap two axes.

`view` and `reshape` keep the elements in the same order in memory and change only the shape. If the sizes of two axes
are swapped, the shape is as expected, but the elements of different rows are mixed: the model trains on wrong data.

## Bad

    optimizer.zero_grad()
    batches = torch.arange(6).reshape(2, 3)
    rows, steps = batches.shape
    swapped = batches.view(steps, rows)  # <- view-for-permute
    assert swapped[0].tolist() == [0, 1]

and

    optimizer.zero_grad()
    batches = torch.arange(12).reshape(2, 3, 2)
    swapped = batches.view(batches.size(1), batches.size(0), -1)  # <- view-for-permute
    assert swapped[0].tolist() != batches[:, 0].tolist()

## Good

    batches = torch.arange(6).reshape(2, 3)
    optimizer.zero_grad()
    swapped = batches.transpose(0, 1)
    assert swapped[0].tolist() == [0, 3]

and

    batches = torch.arange(12).reshape(2, 3, 2)
    optimizer.zero_grad()
    swapped = batches.permute(1, 0, 2)
    assert swapped[0].tolist() == batches[:, 0].tolist()

## When it is fine

Axes may be merged, split and restored:

    optimizer.zero_grad()
    batches = torch.arange(12).reshape(2, 3, 2)
    rows, steps, width = batches.shape
    flat = batches.view(rows * steps, width)
    heads = batches.view(rows, steps, 2, width // 2)
    back = flat.view(rows, steps, width)

The tensor may have been transposed before:

    optimizer.zero_grad()
    batches = torch.arange(6).reshape(2, 3)
    rows, steps = batches.shape
    batches = batches.transpose(0, 1)
    same = batches.reshape(steps, rows)

## Fix

None: both `permute` and another shape are reasonable.

## References

PyTorch documentation, `torch.Tensor.view` and `torch.permute`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import swaps
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class ViewForPermute(Rule):
    level = Level.WARNING
    keywords = "view|reshape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for swap in swaps.swapping_views(pipeline):
            yield self.finding(
                swap.location,
                f"`{swap.method}` swaps the sizes of two axes of `{swap.name}`, but not its elements",
                related=[Related(swap.shape, "the sizes are read here", "shape")] if swap.shape else [],
                help=f"swap the axes with `{swap.name}.transpose({swap.axes[0]}, {swap.axes[1]})`",
            )
