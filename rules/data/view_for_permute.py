"""`view` or `reshape` is used to swap two axes.

`view` and `reshape` keep the elements in the same order in memory and change only the shape. If the sizes of two axes
are swapped, the shape is as expected, but the elements of different rows are mixed: the model trains on wrong data. No
error is raised.

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

Three axes, with the sizes in a tuple:

    optimizer.zero_grad()
    images = torch.arange(24).reshape(2, 3, 4)
    channels_first = images.reshape((images.shape[2], images.shape[0], images.shape[1]))  # <- view-for-permute
    assert channels_first[0].tolist() != images[:, :, 0].tolist()

In a network whose recurrent layer expects the steps first:

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(4, 6)
            self.last = nn.Linear(6, 3)

        def forward(self, x):
            x = x.reshape(-1, 2, 4)
            x = x.view(x.size(1), x.size(0), x.size(2))  # <- view-for-permute
            return self.last(self.layer(x)[0][-1])

    reader = Reader()
    optimizer = torch.optim.Adam(reader.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(reader(x), y).backward()
        optimizer.step()

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

from lintrain.analysis import attention_axes, shown_results, single_axes, swaps
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    OddCallRule,
    Pipeline,
    Related,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
)

WITH_NUMBERS = lazy_pattern(r"\.(?:view|reshape)\(\s*\d+\s*,\s*\d+")


class ViewForPermute(OddCallRule):
    level = Level.WARNING
    odd = "permuting view"
    fewest_odd = 2
    odd_message = "a tensor gets the same sizes in another order"
    odd_help = "use `permute` or `transpose`, which move the elements as well"
    keywords = "view|reshape"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        if any(swaps.swapping_views(source)) or any(attention_axes.unmoved_heads(source)):
            return True
        return source.contains(WITH_NUMBERS)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for finding in self._views(pipeline):
            if not shown_results.is_only_shown(pipeline, finding.location):
                yield finding

    def _views(self, pipeline: Pipeline) -> Iterator[Finding]:
        named = {swap.location for swap in swaps.swapping_views(pipeline.source)}
        for misuse in pipeline.misuses:
            if misuse.use == "permuting view" and misuse.location not in named:
                named.add(misuse.location)
                yield self.finding(
                    misuse.location,
                    f"a tensor of shape {misuse.text} gets the same sizes in another order",
                    help="use `permute` or `transpose`, which move the elements as well",
                    level=Level.NOTE,  # the text does not show which axis has a single entry
                )
        for swap in swaps.swapping_views(pipeline.source):
            if not swap.moved:
                yield self._report_mixed(swap)
                continue
            if single_axes.moves_one_entry(pipeline.source, swap.location, swap.name, swap.axes):
                continue
            yield self.finding(
                swap.location,
                f"`{swap.method}` swaps the sizes of {_count(swap)} axes of `{swap.name}`, but not its elements",
                related=[Related(swap.shape, "the sizes are read here", "shape")] if swap.shape else [],
                help=f"swap the axes with `{swap.name}.{_swapped(swap)}`",
                level=Level.NOTE,
            )

        for heads in attention_axes.unmoved_heads(pipeline.source):
            yield self.finding(
                heads.location,
                "this moves no element between the axes of heads and tokens, and mixes them",
                why="The shape is as expected, but each token gets numbers of other tokens of its text, later ones "
                "among them. The model trains on mixed states, and no error is raised.",
                related=[Related(heads.shown, "the order of the axes", "shape")],
                help="move the axes as well, with `transpose(1, 2)`",
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        yield from super().suspects(evidence)
        mixed = evidence.responses.mixed if evidence.responses is not None else None
        if mixed is not None and mixed.view is not None:
            yield self.finding(
                mixed.view, "this call mixes the rows of the batch", help="use `permute` or `transpose` for axes"
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        mixed = evidence.responses.mixed if evidence.responses is not None else None
        if mixed is not None and mixed.view is not None and mixed.view.meets(finding.location):
            text = f"with one row replaced the answers of the other {mixed.rows - 1} change by {mixed.change:.1%}"
            return Verdict.confirmed(text, change=mixed.change)
        return super().verify(finding, evidence)

    def _report_mixed(self, swap: swaps.Swap) -> Finding:
        order = ", ".join(map(str, swap.axes))
        return self.finding(
            swap.location,
            f"`{swap.method}` names the axes of `{swap.name}` in another order, and mixes its elements",
            related=[Related(swap.shape, "the sizes are read here", "shape")] if swap.shape else [],
            help=f"call `{swap.name}.permute({order})` first",
        )


def _count(swap: swaps.Swap) -> str:
    return {2: "two", 3: "three"}.get(len(swap.moved), str(len(swap.moved)))


def _swapped(swap: swaps.Swap) -> str:
    """The call that moves the elements as well."""
    if len(swap.moved) == 2:
        return f"transpose({swap.moved[1]}, {swap.moved[0]})"
    # A size of -1 is that of the only axis that is not named.
    order = [str(at if axis is None else axis) for at, axis in enumerate(swap.axes)]
    return f"permute({', '.join(order)})"
