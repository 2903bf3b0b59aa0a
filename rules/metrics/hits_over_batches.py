"""Hits, or losses times their rows, are added up over all rows, but divided by the number of batches.

`(predicted == labels).sum()` counts rows. Divided by `len(loader)`, their sum is the average number of hits per batch,
not an accuracy: with batches of 32, a perfect model reaches 32. A mean loss times the rows of its batch is a sum over
rows as well, and the average is too large by the batch size.

## Bad

    hits = 0
    with torch.no_grad():
        for x, y in eval_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    accuracy = hits / len(eval_loader)  # <- hits-over-batches

Losses that are weighted by the rows of their batch:

    total, batches = 0.0, 0
    with torch.no_grad():
        for x, y in eval_loader:
            total += criterion(net(x), y).item() * x.size(0)
            batches += 1
    print("loss", total / batches)  # <- hits-over-batches

## Good

    hits = 0
    with torch.no_grad():
        for x, y in eval_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    accuracy = hits / len(eval_loader.dataset)

and

    total, rows = 0.0, 0
    with torch.no_grad():
        for x, y in eval_loader:
            total += criterion(net(x), y).item() * x.size(0)
            rows += x.size(0)
    print("loss", total / rows)

## When it is fine

Shares of batches are divided by the number of batches:

    share = 0
    with torch.no_grad():
        for x, y in eval_loader:
            share += (net(x).argmax(dim=1) == y).float().mean().item()
    accuracy = share / len(eval_loader)

The size of a batch is divided out as well:

    hits = 0
    with torch.no_grad():
        for x, y in eval_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    accuracy = hits / len(eval_loader) / eval_loader.batch_size

## Fix

None: the rows may be those of the data set, or fewer where the sampler leaves some out.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: its length is the number of batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import hits
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class HitsOverBatches(Rule):
    level = Level.WARNING
    keywords = "sum(|size(|shape|len( & ==|eq(|item()|float( & / & for"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(found) for found in hits.over_batches(pipeline))

    def _report(self, found: hits.Hits) -> Finding:
        total, divisor = (f"`{code}`" if len(code) <= 24 else "it" for code in (found.total, found.divisor))
        shown = total if total != "it" else "this sum" if found.is_loss else "this count"
        what = "adds up the losses of rows" if found.is_loss else "counts rows"
        return self.finding(
            found.location,
            f"{shown} {what}, but is divided by the batches" + (f", {divisor}" if divisor != "it" else ""),
            related=[
                Related(
                    found.counted,
                    "a mean times the rows of its batch" if found.is_loss else "counts the hits among the rows",
                    "count",
                )
            ],
            help="divide by the number of rows",
        )
