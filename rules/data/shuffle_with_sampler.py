"""`shuffle=True` is combined with a sampler or a streaming data set.

A sampler determines the order of the rows, and a stream has a fixed order. `DataLoader` raises ValueError when it is
created with `shuffle=True` and either of them.

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

A sampler may exist only in a run on several devices:

    from torch.utils.data import RandomSampler

    rows = TensorDataset(features, targets)
    sampler = RandomSampler(rows) if "RANK" in os.environ else None
    loader = DataLoader(rows, batch_size=16, shuffle=sampler is None, sampler=sampler)

    def make_loader(rows, sampler=None, shuffle=True):
        return DataLoader(rows, batch_size=16, shuffle=shuffle, sampler=sampler)

    loader = make_loader(rows)

A test may expect the error:

    from torch.utils.data import RandomSampler

    try:
        DataLoader(TensorDataset(features), shuffle=True, sampler=RandomSampler(features))
    except ValueError as error:
        print(error)

## Fix

Safe: with both arguments the loader cannot be created.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: `sampler` and `shuffle`. The errors are those of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loaders
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import (
    Constant,
    Either,
    Instance,
    LibraryObject,
    Sequence,
    Value,
    is_missing,
    is_true,
    options_of,
)
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
                yield from self._judge(pipeline, loader)

    def _judge(self, pipeline: Pipeline, loader: Loader) -> Iterator[Finding]:
        passed = [
            (name, sampler)
            for name in ("sampler", "batch_sampler")
            if (sampler := _sampler(pipeline, loader, name)) is not None
        ]
        if passed:
            name, sampler = passed[0]
            related = [Related(sampler.origin, "determines the order", "origin")] if sampler.origin else []
            optional = _optional(pipeline, loader, name)
            advice = f"pass `shuffle={optional.text}`" if optional else "remove `shuffle`"
            message = f"`shuffle=True` cannot be combined with a `{name}`"
            yield self._report(loader, message, related + ([optional] if optional else []), advice)
        elif loaders.is_stream(loader.dataset):
            made = loader.dataset.origin
            related = [Related(made, "a stream, which has a fixed order", "origin")] if made else []
            yield self._report(loader, "`shuffle=True` cannot be combined with a streaming data set", related)

    def _report(
        self, loader: Loader, message: str, related: list[Related], advice: str = "remove `shuffle`"
    ) -> Finding:
        assert loader.origin is not None
        return self.finding(loader.origin, message, related=related, help=advice)

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(*RAISED):
            yield self.finding(
                location,
                "`shuffle=True` cannot be combined with a sampler or a streaming data set",
                help="remove `shuffle`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            line = finding.location.line
            return Verdict.confirmed(f"creating the loader at line {line} raises {stage.failure.type}")
        made = evidence.objects.loaders_at(finding.location)
        if made:
            created = f"the loader was created at line {finding.location.line}"
            return Verdict.refuted(f"{created}, with a `{made[0].sampler}`", sampler=made[0].sampler)
        return Verdict.inconclusive("no loader was created at this line")

    def fix(self, finding: Finding) -> fixes.Fix:
        for optional in finding.with_role("shuffle"):
            edit = fixes.Replace(optional.location, optional.text)
            return fixes.Fix.of("shuffle only without a sampler", edit, safe=True)
        return fixes.Fix.of("remove `shuffle`", fixes.RemoveArgument(finding.location, "shuffle"), safe=True)


def _sampler(pipeline: Pipeline, loader: Loader, name: str) -> Value | None:
    """The sampler that an argument is; also of one that is None in other branches, if the loader is made in all."""
    options = options_of(loader.value(name))
    samplers = [option for option in options if _is_sampler(option)]
    if not samplers or not all(option in samplers or is_missing(option) for option in options):
        return None
    location = loader.locations.get(name)
    is_sole = len(options) == len(samplers)
    if not is_sole and (location is None or loaders.is_decided_by(pipeline, location, pipeline.code(location))):
        return None
    return samplers[0]


def _optional(pipeline: Pipeline, loader: Loader, name: str) -> Related | None:
    """The value of `shuffle` with what it should be for a sampler that only some runs have; None for other samplers."""
    sampler, shuffle = loader.locations.get(name), loader.locations.get("shuffle")
    if not isinstance(loader.value(name), Either) or sampler is None or shuffle is None:
        return None
    return Related(shuffle, "also if there is a sampler", "shuffle", f"{pipeline.code(sampler)} is None")


def _is_sampler(value: Value) -> bool:
    """Whether an argument is certainly a sampler, and not None."""
    if isinstance(value, Sequence | LibraryObject | Instance):
        return True
    return isinstance(value, Constant) and value.value is not None and not value.may_differ
