"""A loader is told to shuffle and by something else in which order to read.

A sampler is itself an order of the rows, and a stream comes in the order in which it is made. `DataLoader` refuses
`shuffle=True` beside either, when it is built, before anything trains.

## Bad

    from torch.utils.data import WeightedRandomSampler

    weights = torch.ones(len(targets))
    sampler = WeightedRandomSampler(weights, len(targets))
    loader = DataLoader(TensorDataset(features, targets), 16, shuffle=True, sampler=sampler)  # <- shuffle-with-sampler
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    # raises ValueError: sampler option is mutually exclusive with shuffle

and

    from torch.utils.data import IterableDataset

    class Rows(IterableDataset):
        def __iter__(self):
            return zip(features, targets)

    loader = DataLoader(Rows(), batch_size=4, shuffle=True)  # <- shuffle-with-sampler
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    # raises ValueError: DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True

## Good

    from torch.utils.data import WeightedRandomSampler

    weights = torch.ones(len(targets))
    sampler = WeightedRandomSampler(weights, len(targets))
    loader = DataLoader(TensorDataset(features, targets), 16, sampler=sampler)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

and

    from torch.utils.data import IterableDataset

    class Rows(IterableDataset):
        def __iter__(self):
            return zip(features, targets)

    loader = DataLoader(Rows(), batch_size=4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

A sampler may be there only in a run on several devices:

    from torch.utils.data import RandomSampler

    rows = TensorDataset(features, targets)
    sampler = RandomSampler(rows) if "RANK" in os.environ else None
    loader = DataLoader(rows, batch_size=16, shuffle=sampler is None, sampler=sampler)

    def make_loader(rows, sampler=None, shuffle=True):
        return DataLoader(rows, batch_size=16, shuffle=shuffle, sampler=sampler)

    loader = make_loader(rows)

A test may want the error:

    from torch.utils.data import RandomSampler

    try:
        DataLoader(TensorDataset(features), shuffle=True, sampler=RandomSampler(features))
    except ValueError as error:
        print(error)

## Fix

Safe: with both arguments the loader cannot be made.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: `sampler` and `shuffle`. The errors are those of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loaders
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Constant, Instance, LibraryObject, Sequence, Value, is_true
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

RAISED = ("mutually exclusive with shuffle", "batch_size, shuffle, sampler", "expected unspecified shuffle option")


class ShuffleWithSampler(Rule):
    level = Level.ERROR
    keywords = "DataLoader & shuffle"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for loader in pipeline.loaders:
            if (
                loader.origin
                and is_true(loader.value("shuffle"))
                and not loaders.expects_error(pipeline, loader.origin)
            ):
                yield from self._judge(loader)

    def _judge(self, loader: Loader) -> Iterator[Finding]:
        given = [name for name in ("sampler", "batch_sampler") if _is_given(loader.value(name))]
        if given:
            order = loader.value(given[0])
            related = [Related(order.origin, "the order of the rows is made here", "origin")] if order.origin else []
            yield self._report(loader, f"`shuffle=True` stands beside a `{given[0]}`", related)
        elif loaders.is_stream(loader.dataset):
            made = loader.dataset.origin
            related = [Related(made, "a stream: it has no other order", "origin")] if made else []
            yield self._report(loader, "`shuffle=True` is asked of a stream of rows", related)

    def _report(self, loader: Loader, message: str, related: list[Related]) -> Finding:
        assert loader.origin is not None
        return self.finding(loader.origin, message, related=related, help="leave `shuffle` out")

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the loader is built: 0 batches were made")
        made = evidence.objects.loaders_at(finding.location)
        if made:
            order = f"its order is that of a `{made[0].sampler}`"
            return Verdict.refuted(f"line {finding.location.line} built the loader: {order}", sampler=made[0].sampler)
        return Verdict.inconclusive("no loader was seen to be built at this line")

    def fix(self, finding: Finding) -> fixes.Fix:
        return fixes.Fix.of("leave `shuffle` out", fixes.RemoveArgument(finding.location, "shuffle"), safe=True)


def _is_given(order: Value) -> bool:
    """Whether a sampler is certainly there."""
    if isinstance(order, Sequence | LibraryObject | Instance):
        return True
    return isinstance(order, Constant) and order.value is not None and not order.is_default
