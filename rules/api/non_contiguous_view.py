"""`view` joins axes of a tensor that was permuted, and is refused.

`permute` and `transpose` only renumber the axes of the same memory, and `view` only reads the same memory in another
shape. Axes that no longer follow each other in memory cannot be joined: PyTorch raises a RuntimeError. `reshape` copies
the numbers where it has to.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        pairs = x.unflatten(1, (2, 4)).transpose(1, 2)
        scores = net(pairs.view(16, -1))  # <- non-contiguous-view
        criterion(scores, y).backward()
        optimizer.step()
    # raises RuntimeError: view size is not compatible

The axes in a name, and all of them joined:

    def flatten_channels(images):
        order = (1, 0) + tuple(range(2, images.dim()))
        swapped = images.permute(order)
        return swapped.view(images.size(1), -1)  # <- non-contiguous-view

    flatten_channels(torch.randn(4, 3, 5, 5))
    # raises RuntimeError: view size is not compatible

## Good

    for x, y in loader:
        optimizer.zero_grad()
        pairs = x.unflatten(1, (2, 4)).transpose(1, 2)
        scores = net(pairs.reshape(16, -1))
        criterion(scores, y).backward()
        optimizer.step()

and with the axes in a name:

    def flatten_channels(images):
        order = (1, 0) + tuple(range(2, images.dim()))
        swapped = images.permute(order).contiguous()
        return swapped.view(images.size(1), -1)

    flatten_channels(torch.randn(4, 3, 5, 5))

## When it is fine

Axes that still follow each other in memory are joined, or the axes are put back into their order:

    images = torch.randn(4, 3, 5, 5)
    pixels = images.permute(0, 2, 3, 1)
    rows = pixels.view(4, 25, 3)
    back = pixels.permute(0, 3, 1, 2).view(4, -1)

## Fix

None: the rows may have been meant in another order.

## References

PyTorch documentation, `torch.Tensor.view`; the fixes in `wolny/pytorch-3dunet`, commit cc7dbab462ce, and
`AntixK/PyTorch-VAE`, commit 27b559f78e5e.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tensor_forms
from lintrain.pipeline import blocks
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, lazy_pattern, one_per_location

WRITTEN = lazy_pattern(r"\.view\(")


class NonContiguousView(Rule):
    level = Level.ERROR
    keywords = "permute|transpose|swapaxes|swapdims|t() & view"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(WRITTEN) and any(tensor_forms.views_of_permuted(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self._report(view)
            for view in tensor_forms.views_of_permuted(pipeline.source)
            if not blocks.shows_error(pipeline.source, view.location)
        )

    def _report(self, view: tensor_forms.PermutedView) -> Finding:
        return self.finding(
            view.location,
            "`view` cannot join axes that do not follow each other in memory",
            related=[Related(view.permuted, "reorders the axes", "permuted")],
            help="use `reshape`, or call `contiguous()` first",
        )
