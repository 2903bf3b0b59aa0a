"""All axes of size 1 are squeezed, and with a batch of one row also that of the batch.

`squeeze()` without an axis depends on the size of the batch. The last batch of an epoch may have one row, and most
predictions do: then the result has one axis less, and the loss or the next layer raises an error or takes other axes.
Reported is what later code needs the axis of: an index, an axis by its number, a loss, a layer, a list that is joined.

## Bad

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 1)

        def forward(self, x):
            return self.output(x).squeeze()  # <- squeezed-batch-axis

    scorer = Scorer()
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scorer(x), (y > 0).float()).backward()
        optimizer.step()

In a training loop:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        scores = scorer(x).squeeze()  # <- squeezed-batch-axis
        F.binary_cross_entropy_with_logits(scores, (y > 0).float()).backward()
        optimizer.step()

Rows of a smaller last batch are collected:

    scorer = nn.Linear(8, 1)
    scores = []
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        scores.extend(scorer(x).squeeze().tolist())  # <- squeezed-batch-axis

## Good

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 1)

        def forward(self, x):
            return self.output(x).squeeze(-1)

    scorer = Scorer()
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scorer(x), (y > 0).float()).backward()
        optimizer.step()

and

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        scores = scorer(x).squeeze(-1)
        F.binary_cross_entropy_with_logits(scores, (y > 0).float()).backward()
        optimizer.step()

and

    scorer = nn.Linear(8, 1)
    scores = []
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        scores.extend(scorer(x).squeeze(-1).tolist())

## When it is fine

No axis is needed after it:

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 1)

        def forward(self, x):
            return self.output(x).squeeze().view(-1)

    scorer = Scorer()
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(scorer(x), (y > 0).float()).backward()
        optimizer.step()

The loss broadcasts a single row, to the same number:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(scorer(x).squeeze(), y.float()).backward()
        optimizer.step()

## Fix

None: which of the axes was meant is not certain.

## References

PyTorch documentation, `torch.squeeze` (its warning about batches of one row); the fix in `NVIDIA/tacotron2`, commit
14dbc374973a.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import squeezes, swaps
from lintrain.rule import Evidence, Finding, Level, Location, OddCallRule, Pipeline, Source, Targets
from lintrain.source.nearby_loaders import may_give_one_row


class SqueezedBatchAxis(OddCallRule):
    level = Level.WARNING
    odd = "squeezed rows"
    odd_message = "of a batch with one row, this tensor loses the batch axis too"
    odd_help = "name the axis of size 1, for example `squeeze(-1)`"
    keywords = "squeeze( & Module|backward"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(_squeezed(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = _squeezed(pipeline.source)
        if found and not may_give_one_row(pipeline.source):
            return  # no batch has one row
        for location, code in found.items():
            shown = f"`{code}`" if len(code) <= 24 else "this tensor"
            yield self.finding(
                location,
                f"of a batch with one row, {shown} loses the batch axis too",
                help="name the axis of size 1, for example `squeeze(-1)`",
                level=Level.NOTE,  # the text does not show how many rows the last batch has
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        loader = evidence.loop.loader if evidence.loop is not None else None
        if loader is not None and loader.drops_last and loader.batch_size != 1:
            return  # no batch has one row
        # Of what else is done with a tensor, such as a view, the batch axis may come back.
        lost = {call.location for call in evidence.odd_calls if call.kind == "lost rows"}
        yield from (finding for finding in super().suspects(evidence) if finding.location in lost)


def _squeezed(source: Source) -> dict[Location, str]:
    """What a file squeezes all axes of, by where it does."""
    return {**dict(swaps.squeezed_batches(source)), **dict(squeezes.iterated_squeezes(source))}
