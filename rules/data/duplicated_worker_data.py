"""Every worker of a loader yields the whole stream.

Each worker process of a `DataLoader` gets a copy of the data set. A stream that does not call `get_worker_info` yields
all its rows in each worker, so every row occurs once per worker: an epoch is that many times too long, and a schedule
counts too many steps.

## Bad

    from torch.utils.data import IterableDataset

    class Numbers(IterableDataset):
        def __init__(self, count):
            self.count = count

        def __iter__(self):
            for number in range(self.count):
                yield number

    loader = DataLoader(Numbers(8), batch_size=2, num_workers=2)  # <- duplicated-worker-data
    for numbers in loader:
        optimizer.zero_grad()
        criterion(net(features[numbers]), targets[numbers]).backward()
        optimizer.step()

## Good

    import itertools

    from torch.utils.data import IterableDataset, get_worker_info

    class Numbers(IterableDataset):
        def __init__(self, count):
            self.count = count

        def __iter__(self):
            worker = get_worker_info()
            first, step = (worker.id, worker.num_workers) if worker else (0, 1)
            for number in itertools.islice(range(self.count), first, None, step):
                yield number

    loader = DataLoader(Numbers(8), batch_size=2, num_workers=2)
    for numbers in loader:
        optimizer.zero_grad()
        criterion(net(features[numbers]), targets[numbers]).backward()
        optimizer.step()

## When it is fine

A single worker yields each row once, and a `worker_init_fn` may divide the rows among the workers:

    from torch.utils.data import IterableDataset, get_worker_info

    class Numbers(IterableDataset):
        first, last = 0, 8

        def __iter__(self):
            return iter(range(self.first, self.last))

    def share_out(worker):
        rows = get_worker_info().dataset
        rows.first, rows.last = 4 * worker, 4 * worker + 4

    single = DataLoader(Numbers(), batch_size=2, num_workers=1)
    shared = DataLoader(Numbers(), batch_size=2, num_workers=2, worker_init_fn=share_out)

Streams of random rows, and streams of the library `datasets`, which divide themselves among the workers:

    from torch.utils.data import IterableDataset

    class Draws(IterableDataset):
        def __iter__(self):
            while True:
                yield torch.randn(8)

    drawn = DataLoader(Draws(), batch_size=4, num_workers=2)
    streamed = DataLoader(raw["train"].to_iterable_dataset(num_shards=2), batch_size=4, num_workers=2)

A stream over an unknown source may be divided already:

    from torch.utils.data import IterableDataset

    class Wrapped(IterableDataset):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return iter(self.source)

    def make_loader(source):
        return DataLoader(Wrapped(source), batch_size=4, num_workers=4)

## Fix

Asks first: each worker then yields every n-th row, which changes the order of the rows. Offered if `__iter__` is a
single simple loop.

## References

PyTorch documentation, `torch.utils.data.IterableDataset`: the example with `get_worker_info`. Measured on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loaders
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Instance, is_missing, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

ROWS_OF_WORKER = """worker = get_worker_info()
first, step = (worker.id, worker.num_workers) if worker else (0, 1)"""
"""The rows of a worker: the index of the first one, and the step to the next."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the rows of one worker, for `__iter__`; None without a fix."""

    rows: str | None = None


class DuplicatedWorkerData(Rule[Claim]):
    level = Level.WARNING
    keywords = "DataLoader & IterableDataset"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for loader in pipeline.loaders:
            workers = literal(loader.value("num_workers"))
            stream = loader.dataset
            if not isinstance(workers, int) or workers < 2 or not isinstance(stream, Instance) or not loader.origin:
                continue
            if is_missing(loader.value("worker_init_fn")) and loader.is_complete and loaders.yields_all(stream):
                yield self._report(pipeline, loader, stream, workers)

    def _report(self, pipeline: Pipeline, loader: Loader, stream: Instance, workers: int) -> Finding[Claim]:
        assert loader.origin is not None
        name = stream.cls.node.name
        reasons = [Related(stream.origin, "never calls `get_worker_info`", "origin")] if stream.origin else []
        method, rows = loaders.only_loop(pipeline, stream) or (None, None)
        if method and rows:
            reasons += [Related(method, "runs in every worker", "method"), Related(rows, "all rows", "rows")]
        return self.finding(
            loader.origin,
            f"each of {workers} workers yields all rows of `{name}`",
            related=reasons,
            help="in `__iter__`, call `get_worker_info()` and yield only every `num_workers`-th row",
            claim=Claim(f"itertools.islice({pipeline.code(rows)}, first, None, step)" if rows else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for loader in evidence.objects.loaders:
            if loader.copies is not None and loader.copies.is_stream:
                yield self.finding(
                    loader.location,
                    f"each of the {loader.workers} workers yields the whole stream",
                    help="divide the rows by `torch.utils.data.get_worker_info()` in `__iter__`",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        made = evidence.objects.loaders_at(finding.location)
        read = next((each.copies for each in made if each.copies), None)
        if read is None:
            why = next((each.reason for each in made if each.reason), "")
            return Verdict.inconclusive(why or f"no workers were tested for the {len(made)} loaders of this line")
        numbers = {"read": read.read, "alike": read.alike, "shared": read.shared}
        if read.is_steady and read.different > 1 and read.alike == read.alone == read.read:
            return Verdict.confirmed(f"2 workers read the same {read.read} rows as a single one", **numbers)
        if not read.is_steady:
            return Verdict.inconclusive(f"a single worker does not read the same {read.read} rows twice", **numbers)
        if read.shared == 0:
            return Verdict.refuted(f"2 workers read {read.read} rows each, with no rows in common", **numbers)
        return Verdict.inconclusive(f"2 workers have {read.shared} of {read.read} rows in common", **numbers)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, rows, methods = finding.claim, finding.with_role("rows"), finding.with_role("method")
        if claim is None or claim.rows is None or not rows or not methods:
            return None
        return fixes.Fix.of(
            "divide the rows among the workers",
            fixes.InsertAtTop(methods[0].location, ROWS_OF_WORKER),
            fixes.Replace(rows[0].location, claim.rows),
            fixes.AddImport("itertools"),
            fixes.AddImport("torch.utils.data", "get_worker_info"),
            safe=False,
        )
