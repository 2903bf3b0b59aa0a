"""A loss compares the predictions of one batch with the labels of another.

The loop over the evaluation data has labels of its own, but the loss gets those that another loop left behind, usually
the last batch of training. The value means nothing, and early stopping or the best checkpoint depends on it. If the
last batch is smaller, an error about shapes is raised.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    net.eval()
    with torch.no_grad():
        for x_val, y_val in DataLoader(TensorDataset(features, targets), batch_size=16):
            outputs = net(x_val)
            val_loss = criterion(outputs, y)  # <- stale-eval-labels

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    net.eval()
    with torch.no_grad():
        for x_val, y_val in DataLoader(TensorDataset(features, targets), batch_size=16):
            outputs = net(x_val)
            val_loss = criterion(outputs, y_val)

## When it is fine

The prediction belongs to the outer batch as well:

    for x, y in loader:
        optimizer.zero_grad()
        for noise, target in DataLoader(TensorDataset(features, targets), batch_size=16):
            criterion(net(x + noise), y).backward()
        optimizer.step()

## Fix

None: a loss may be computed with either batch on purpose.

## References

The fix in `meetps/pytorch-semseg`, commit 81997cd5af36.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import wrong_names
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class StaleEvalLabels(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, wrong_names.stale_labels(pipeline.source)))

    def _report(self, found: wrong_names.StaleLabel) -> Finding:
        names = f"`{found.name}`, not `{found.own}`" if len(found.name + found.own) <= 30 else "the wrong labels"
        return self.finding(
            found.location,
            f"predictions of this loop are compared with {names}",
            related=[Related(found.other, f"`{found.name}` is from this loop", "other")],
            help=f"pass `{found.own}`",
        )
