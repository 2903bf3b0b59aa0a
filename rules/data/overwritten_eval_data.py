"""A name for evaluation data is assigned training data.

Usually a line was copied from the training data, and one of its names was not changed. Inputs and labels of different
rows are then compared, or the evaluation measures training rows. No error is raised.

## Bad

    x_train, y_train, x_test, y_test = features[:64], targets[:64], features[64:], targets[64:]
    y_train = y_train[:32]
    y_test = y_train[:32]  # <- overwritten-eval-data
    for x, y in DataLoader(TensorDataset(x_train[:32], y_train), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        accuracy = (net(x_test).argmax(-1) == y_test).float().mean()

## Good

    x_train, y_train, x_test, y_test = features[:64], targets[:64], features[64:], targets[64:]
    y_train = y_train[:32]
    y_test = y_test[:32]
    for x, y in DataLoader(TensorDataset(x_train[:32], y_train), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        accuracy = (net(x_test).argmax(-1) == y_test).float().mean()

## When it is fine

The name is new: the rows are split off the training data.

    x_train, y_train = features, targets
    x_test, y_test = x_train[64:], y_train[64:]
    x_train, y_train = x_train[:64], y_train[:64]
    for x, y in DataLoader(TensorDataset(x_train, y_train), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: which of the names is wrong is not certain.

## References

The fix in `optuna/optuna-examples`, commit 159deee976d9.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import wrong_names
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class OverwrittenEvalData(Rule):
    level = Level.ERROR
    keywords = "train & test|val|eval|dev"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, wrong_names.overwritten_eval_data(pipeline)))

    def _report(self, found: wrong_names.Overwritten) -> Finding:
        names = (
            f"`{found.name}` gets values of `{found.train}`"
            if len(found.name + found.train) <= 28
            else "training data is assigned"
        )
        return self.finding(
            found.location,
            f"{names}, not its own",
            related=[Related(found.first, f"`{found.name}` is assigned here first", "first")],
            help=f"use `{found.name}` on the right side as well",
        )
