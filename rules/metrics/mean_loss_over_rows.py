"""Mean losses of batches are added up, and the sum is divided by something other than their number.

A loss of torch is the mean over its batch. The sum of these means divided by the number of rows is too small by the
batch size, and changes when the batch size does: it cannot be compared with other runs.

## Bad

    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(total / len(loader.dataset))  # <- mean-loss-over-rows

Rows that the loop counts:

    total, rows = 0.0, 0
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(net(x), y).item()
            rows += y.size(0)
    total /= rows  # <- mean-loss-over-rows

A sum that starts again after 500 batches, and is divided by 2000:

    running_loss = 0.0
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        if step % 500 == 499:
            print(running_loss / 2000)  # <- mean-loss-over-rows
            running_loss = 0.0

The last index, which is one less than the number of batches, and 0 after a single one:

    total_loss = 0.0
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    print(total_loss / step)  # <- mean-loss-over-rows

## Good

    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(total / len(loader))

and

    total, rows = 0.0, 0
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(net(x), y, reduction="sum").item()
            rows += y.size(0)
    total /= rows

## When it is fine

Each mean is multiplied by the rows of its batch, or the number divided by is not one of rows:

    total, batches = 0.0, 0
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(net(x), y).item() * len(x)
            batches += 1
    total /= len(loader.dataset)

## Fix

None: divide by the number of batches, or multiply each mean by the rows of its batch.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`, argument `reduction`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import averages, last_indices, written_means
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, one_per_location


class MeanLossOverRows(Rule):
    level = Level.WARNING
    keywords = "oss|ntropy & / & +=|+"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        means = (
            (found, loss.location) for loss in pipeline.losses for found in averages.means_over_rows(pipeline, loss)
        )
        written = (
            (found, loss)
            for loss in written_means.written_means(pipeline)
            for found in averages.of_mean_at(pipeline, loss)
        )
        yield from one_per_location(self._report(*each) for each in chain(means, written))
        for source in dict.fromkeys(pipeline.sources.values()):
            yield from map(self._report_index, last_indices.means_by_index(source))

    def _report_index(self, found: last_indices.IndexAverage) -> Finding:
        return self.finding(
            found.location,
            f"`{found.total}` adds up `{found.index} + 1` batches, but is divided by `{found.index}`",
            related=[Related(found.summed, "added once for each batch", "sum")],
            help=f"divide by the number of batches: `{found.items}`",
        )

    def _report(self, found: averages.RowAverage, loss: Location) -> Finding:
        if found.batches:
            return self.finding(
                found.location,
                f"`{found.total}` adds up {found.batches} batches, but is divided by {found.rows}",
                related=[Related(found.summed, "one mean for each batch", "sum")],
                help=f"divide by {found.batches}",
            )
        shown = f"`{found.total}`" if len(found.total) <= 24 else "this sum"
        return self.finding(
            found.location,
            f"{shown} adds up means of batches, but is divided by the rows",
            related=[
                Related(found.summed, "one mean for each batch", "sum"),
                Related(loss, "the mean over the rows of a batch", "loss"),
            ],
            help="divide by the number of batches, or multiply each mean by the rows of its batch",
        )
