"""Each process splits the data with its own random numbers, so the processes have different rows.

A distributed sampler divides the row indices and requires the same data set in all processes. If each process has its
own split, some rows are used several times per epoch and others never, and one process validates on rows on which
another one trains: the metric is too good.

## Bad

    from torch.utils.data import random_split
    from torch.utils.data.distributed import DistributedSampler

    rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    train, held_out = random_split(rows, [80, 16])  # <- rank-dependent-data
    sampler = DistributedSampler(train, num_replicas=2, rank=0)
    batches = DataLoader(train, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in batches:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

Accelerate divides the rows in the same way:

    accelerator = Accelerator(cpu=True)
    splits = columns["train"].train_test_split(test_size=0.2)  # <- rank-dependent-data
    batches = DataLoader(splits["train"], batch_size=16, shuffle=True, collate_fn=collator)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        accelerator.backward(model(**batch).loss)
        optimizer.step()

## Good

    from torch.utils.data import random_split
    from torch.utils.data.distributed import DistributedSampler

    rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    train, held_out = random_split(rows, [80, 16], generator=torch.Generator().manual_seed(0))
    sampler = DistributedSampler(train, num_replicas=2, rank=0)
    batches = DataLoader(train, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in batches:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

The same split in every process:

    accelerator = Accelerator(cpu=True)
    splits = columns["train"].train_test_split(test_size=0.2, seed=0)
    batches = DataLoader(splits["train"], batch_size=16, shuffle=True, collate_fn=collator)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        accelerator.backward(model(**batch).loss)
        optimizer.step()

## When it is fine

All processes use the same seed, or there is only one process:

    from torch.utils.data import random_split
    from torch.utils.data.distributed import DistributedSampler

    torch.manual_seed(0)
    rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    train, held_out = random_split(rows, [80, 16])
    sampler = DistributedSampler(train, num_replicas=2, rank=0)
    for x, y in DataLoader(train, batch_size=16, sampler=sampler):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

    from torch.utils.data import random_split

    rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    train, held_out = random_split(rows, [80, 16])
    for x, y in DataLoader(train, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A split that is made before the processes start is the same in all:

    import torch.multiprocessing as mp
    from torch.utils.data import random_split
    from torch.utils.data.distributed import DistributedSampler

    def work(rank, rows):
        sampler = DistributedSampler(rows, num_replicas=2, rank=rank)
        for x, y in DataLoader(rows, batch_size=16, sampler=sampler):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

    rows = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    train, held_out = random_split(rows, [80, 16])
    if os.environ.get("START"):
        mp.spawn(work, args=(train,), nprocs=2)
    else:
        work(0, train)

## Fix

Safe: processes with different splits skip some rows and repeat others, which is never intended.

## References

PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`; measured on torch 2.13 and datasets 5.2: a
new process makes another split unless it sets a seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import divided_rows, script_text
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

SEEDED = r"seed"
SHARES = r"generator|determin|broadcast|all_gather|scatter"
SEEDS = r"(?i)seed\w*\Z"
BY_RANK = r"\b(?:\w*rank|process_index)\b|device_specific=True"
STARTS_PROCESSES = r"spawn|notebook_launcher|\bProcess\(|fork"
KNOWS_PROCESSES = lazy_pattern(
    r"LOCAL_RANK|WORLD_SIZE|\blocal_rank\b|is_(local_|world_)?(main_process|process_zero)|wait_for_everyone"
    r"|main_process_first|init_process_group"
)
"""Code for a training by several processes: a Trainer divides the rows among them."""

RANDOM = frozenset({"train_test_split", "shuffle", "random_split"})
LEAST_OVERLAP = 0.2
"""Of the rows of a process; shards of data with repeated rows have fewer in common."""

IS_SET = lazy_pattern(r"\*\*|\bseed\b|\bgenerator\b|shuffle ?= ?False")
"""Arguments that make an operation the same in every process, or may."""

SEED_OF = {"random_split": ("generator", "torch.Generator().manual_seed(0)")}


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument that sets the seed, with its value; `argument` is None without a fix."""

    value: str
    argument: str | None = None


class RankDependentData(Rule[Claim]):
    level = Level.WARNING
    keywords = "DataLoader|Trainer & split|shuffle"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if pipeline.source.notebook is not None:  # launchers do not start notebooks
            return
        found: dict[Location, Finding[Claim]] = {}
        for loader in pipeline.loaders:
            divided = _divided_at(pipeline, loader)
            for name, location in _random_operations(loader.dataset) if divided else ():
                if script_text.mentions(pipeline, STARTS_PROCESSES) or _may_be_alike(pipeline):
                    return
                found.setdefault(location, self._report(pipeline, name, location, divided))
        for run in pipeline.runs if script_text.mentions(pipeline, KNOWS_PROCESSES) else ():
            is_random = bool(run.train_calls) and not _is_seeded(pipeline)
            for rows in divided_rows.rows_of(pipeline, run.value("train_dataset")) if is_random else ():
                for name, location in _random_operations(rows):
                    found.setdefault(location, self._report(pipeline, name, location, run.construction))
        yield from found.values()

    def _report(self, pipeline: Pipeline, name: str, location: Location, divided: Location | None) -> Finding[Claim]:
        argument, value = SEED_OF.get(name, ("seed", "0"))
        is_available = "torch" not in value or script_text.mentions(pipeline, r"(?m)^import torch$")
        note = "divides the rows among the processes"
        return self.finding(
            location,
            f"`{name}` differs between the processes without a common seed",
            related=[Related(divided, note, "loader")] if divided else [],
            help=f"pass `{argument}={value}`",
            claim=Claim(value, argument if is_available else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        ranks, loop = evidence.ranks, evidence.loop
        # A script that gives each process other rows on purpose has none of them twice, and one in which each process
        # goes through all rows in its own order uses no row more often than another.
        if ranks is not None and ranks.same_dataset is False and ranks.overlap > LEAST_OVERLAP and ranks.divides_rows:
            made = loop.loader.made_at if loop is not None and loop.loader is not None else None
            yield self.finding(
                made or evidence.location,
                f"{ranks.processes} processes divide different data sets ({ranks.overlap:.0%} of rows are in both)",
                help="split and shuffle the data with the same seed in every process",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        lengths = " and ".join(str(rows) for rows in ranks.dataset_rows)
        if ranks.same_dataset is None:
            return Verdict.inconclusive(
                f"the data sets of {ranks.processes} processes ({lengths} rows) cannot be compared"
            )
        if ranks.same_dataset:
            return Verdict.refuted(
                f"{ranks.processes} processes have the same data set of {ranks.dataset_rows[0]} rows"
            )
        common = f"; {ranks.overlap:.0%} of the rows of one are also in the other one" if ranks.contents else ""
        text = f"the data sets of {ranks.processes} processes have different rows, or another order ({lengths} rows)"
        return Verdict.confirmed(f"{text}{common}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.argument is None:
            return None
        edit = fixes.AddArgument(finding.location, claim.argument, claim.value)
        return fixes.Fix.of("use the same seed in every process", edit, safe=True)


def _may_be_alike(pipeline: Pipeline) -> bool:
    """Whether the processes may have the same random numbers: some seed is set, and not each for its rank."""
    if script_text.mentions_name(pipeline, SHARES):
        return True
    if not script_text.mentions_name(pipeline, SEEDED):
        return False
    calls = [call for source in pipeline.sources.values() for call in script_text.calls_of(source, SEEDS)]
    return not calls or not all(re.search(BY_RANK, call.code) for call in calls)


def _is_seeded(pipeline: Pipeline) -> bool:
    """Whether some code sets a seed, whatever it is, or starts the processes after the data is made."""
    calls = [call for source in pipeline.sources.values() for call in script_text.calls_of(source, SEEDS)]
    return (
        bool(calls) or script_text.mentions_name(pipeline, SHARES) or script_text.mentions(pipeline, STARTS_PROCESSES)
    )


def _divided_at(pipeline: Pipeline, loader: Loader) -> Location | None:
    """Where the rows of a loader are certainly divided among the processes."""
    if sampler := divided_rows.sampler_of(loader):
        return sampler
    return loader.origin if divided_rows.launcher_of(pipeline, loader) else None


def _random_operations(dataset: Value) -> Iterator[tuple[str, Location]]:
    """The random operations that a data set results from, by name and location."""
    if isinstance(dataset, TorchDataset) and dataset.name in RANDOM and dataset.origin and dataset.is_complete:
        yield dataset.name, dataset.origin
    if isinstance(dataset, TorchDataset) and dataset.name in {"Subset", "random_split"}:
        yield from _random_operations(dataset.parts[0])
    for step in dataset.steps if isinstance(dataset, Dataset) else ():
        if step.operation in RANDOM and not IS_SET.search(step.text):
            yield step.operation, step.location
