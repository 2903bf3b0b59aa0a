"""A sum over the batches of all epochs is divided by the number of batches or rows in one.

The sum starts before the loop over epochs and is never reset. What is printed as the mean loss of an epoch is the sum
of the means of all epochs so far, so it grows while the model learns; a sum of hits gives an accuracy above 1. No error
is raised.

A metric of Keras or torchmetrics that nothing resets averages over all epochs, and hides what the last one changed.
One metric of Lightning for training and validation counts the batches of both.

## Bad

    running_loss = 0.0
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(running_loss / len(loader))  # <- lasting-sum

    hits = 0
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            outputs = net(x)
            criterion(outputs, y).backward()
            optimizer.step()
            hits += (outputs.argmax(1) == y).sum().item()
        print(100 * hits / len(loader.dataset))  # <- lasting-sum

## Good

    for epoch in range(3):
        running_loss = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(running_loss / len(loader))

## When it is fine

The divisor grows with the sum, or the sum is reset after it is printed:

    total, batches, shown = 0.0, 0, 0.0
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
            shown += loss.item()
            batches += 1
        print(total / batches, total / (len(loader) * (epoch + 1)), shown / len(loader))
        shown = 0.0

## Fix

None: the sum may be reset in each epoch, or be divided by all batches so far.

## References

The questions with this mistake in `benchmarks/posts`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import last_batch, lasting_sums, lasting_torchmetrics
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location

WHY_METRIC = (
    "The value is an average over all epochs so far, so it hides what the last epoch changed, such as overfitting. No "
    "error is raised."
)
WHY_SHARED = (
    "The value of the validation then also depends on rows that the model is trained on, and can hide overfitting. A "
    "checkpoint or early stopping that monitors it goes by that value. No error is raised."
)


class LastingSum(Rule):
    level = Level.WARNING
    keywords = "for|training_step & +=|update_state|torchmetrics"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(each) for each in lasting_sums.lasting_sums(pipeline.source))

        yield from one_per_location(map(self._report_metric, lasting_sums.lasting_metrics(pipeline.source)))
        yield from one_per_location(map(self._report_shared, last_batch.shared_metrics(pipeline.source)))
        of_torch = lasting_torchmetrics.lasting_torchmetrics(pipeline.source)
        yield from one_per_location(self._report_metric(each, "reset") for each in of_torch)

    def _report_shared(self, found: last_batch.SharedMetric) -> Finding:
        shown = f"`{found.code}`" if len(found.code) <= 24 else "this metric"
        return self.finding(
            found.location,
            f"{shown} is logged for the training as well, and counts the batches of both",
            related=[Related(found.trained, "logged for the training", "sum")],
            why=WHY_SHARED,
            help="make a metric of its own for each of them",
        )

    def _report_metric(self, found: lasting_sums.LastingSum, method: str = "reset_state") -> Finding:
        shown = f"`{found.total}`" if len(found.total) <= 24 else "this metric"
        return self.finding(
            found.location,
            f"{shown} counts the batches of all epochs: nothing resets it",
            related=[
                Related(found.started, "made here, before all epochs", "start"),
                Related(found.added, "gets each batch", "sum"),
            ],
            why=WHY_METRIC,
            help=f"call `{found.total}.{method}()` at the end of each epoch",
        )

    def _report(self, found: lasting_sums.LastingSum) -> Finding:
        shown = f"`{found.total}`" if len(found.total) <= 24 else "this sum"
        return self.finding(
            found.location,
            f"{shown} is the sum of all epochs, divided by the batches or rows of one",
            related=[
                Related(found.started, "starts here, before all epochs", "start"),
                Related(found.added, "grows in every batch", "sum"),
            ],
            help="set the sum to 0 at the start of each epoch",
        )
