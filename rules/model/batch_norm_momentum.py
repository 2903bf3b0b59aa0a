"""A batch normalization of torch gets the momentum of Keras.

Keras keeps `momentum` of the old statistics, 0.99 by default. In torch it is the share of the new batch, 0.1 by
default, so with 0.99 an evaluation normalizes by the statistics of the last batch alone. In `nn.BatchNorm2d(64, 0.8)`
the second argument is no momentum, but `eps`, which is added to the variance: channels with a small variance are then
hardly normalized. No error is raised.

## Bad

    norm = nn.BatchNorm1d(32, momentum=0.99)  # <- batch-norm-momentum
    network = nn.Sequential(nn.Linear(8, 32), norm, nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

As the second argument:

    norm = nn.BatchNorm1d(32, 0.8)  # <- batch-norm-momentum
    network = nn.Sequential(nn.Linear(8, 32), norm, nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## Good

    norm = nn.BatchNorm1d(32, momentum=0.01)
    network = nn.Sequential(nn.Linear(8, 32), norm, nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

and

    norm = nn.BatchNorm1d(32, momentum=0.2)
    network = nn.Sequential(nn.Linear(8, 32), norm, nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## When it is fine

A momentum of 1 takes the statistics of a single pass over all rows:

    network = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32, 1e-3, momentum=1.0), nn.ReLU(), nn.Linear(32, 3))
    with torch.no_grad():
        network(features)

## Fix

None: the momentum that was meant may be that of another framework, or a guess.

## References

PyTorch documentation, `torch.nn.BatchNorm2d`: this momentum "is different from one used in optimizer classes and the
conventional notion of momentum"; Keras documentation, `BatchNormalization`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import Value, literal
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, lazy_pattern, one_per_location

LAYERS = lazy_pattern(r"^torch\.nn\.(?:BatchNorm[123]d|SyncBatchNorm)$")
LEAST_EPS = 0.1
"""From here on it is no small number beside a variance of about 1; the largest in use is 1e-2."""

LEAST_MOMENTUM = 0.8


class BatchNormMomentum(Rule):
    level = Level.WARNING
    keywords = "BatchNorm"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"BatchNorm(?:[123]d)?\([^()\n]*(?:,\s*0?\.[1-9]|momentum)")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        layers = (call for call in pipeline.calls if LAYERS.search(call.path))
        yield from one_per_location(found for call in layers for found in self._report(pipeline, call))

    def _report(self, pipeline: Pipeline, call: LibraryCall) -> Iterator[Finding]:
        eps, momentum = _setting(pipeline, call, "eps", 1), _setting(pipeline, call, "momentum", 2)
        if eps is not None and LEAST_EPS <= eps < 1:
            yield self.finding(
                call.location,
                f"`eps` is {eps:g} here, so a small variance is hardly normalized",
                help=f"write `momentum={1 - eps:g}`: torch counts the new batch, Keras the old statistics",
            )
        elif momentum is not None and LEAST_MOMENTUM <= momentum < 1:
            yield self.finding(
                call.location,
                f"with a momentum of {momentum:g}, the running statistics are those of the last batch",
                help=f"write `momentum={1 - momentum:g}`: torch counts the new batch, Keras the old statistics",
            )


def _setting(pipeline: Pipeline, call: LibraryCall, name: str, position: int) -> float | None:
    """A number that the call of a layer gets by name, or as a literal by position."""
    if name in call.arguments:
        return _number(call.arguments[name].value)
    node = expressions.call_at(pipeline, call.location)
    if node is None or len(node.arguments) <= position or call.positional <= position or call.is_open:
        return None
    try:
        return float(node.arguments[position].code)
    except ValueError:
        return None


def _number(value: Value) -> float | None:
    number = literal(value)
    return number if isinstance(number, float) else None
