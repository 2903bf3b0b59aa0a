"""A view is used to swap two axes.

`view` and `reshape` only cut the same row of numbers into other lengths; they move none. With the sizes of two axes
swapped the shape looks right and the numbers of different rows are mixed: the model learns from batches that hold
pieces of one row in another.

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

Axes may be joined, split and put back where they were:

    optimizer.zero_grad()
    batches = torch.arange(12).reshape(2, 3, 2)
    rows, steps, width = batches.shape
    flat = batches.view(rows * steps, width)
    heads = batches.view(rows, steps, 2, width // 2)
    back = flat.view(rows, steps, width)

A tensor that was transposed before has its axes where the view wants them:

    optimizer.zero_grad()
    batches = torch.arange(6).reshape(2, 3)
    rows, steps = batches.shape
    batches = batches.transpose(0, 1)
    same = batches.reshape(steps, rows)

## Fix

None: `permute` and another shape are both reasonable, and only the later code tells which one was meant.

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
                f"`{swap.method}` gives `{swap.name}` the sizes of two axes swapped, and moves no numbers",
                related=[Related(swap.shape, "the sizes are taken here", "shape")] if swap.shape else [],
                help=f"swap them with `{swap.name}.transpose({swap.axes[0]}, {swap.axes[1]})`",
            )
