"""Each process splits the data by its own random numbers, so that they do not hold the same rows.

A sampler shares out the rows by their numbers and relies on all processes having one data set. If each draws its own
split, some rows are trained on several times and others never, and what one process validates on another has learned:
the metric is too good.

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

Accelerate shares out the rows in the same way:

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

All processes begin with one seed, or there is only one process:

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

A split that is drawn before the processes are started is the same for all:

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

Safe: processes that cut the same data differently lose rows and repeat others.

## References

PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`; measured on torch 2.13 and datasets 5.2: a
fresh process draws another split unless it sets a seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import LibraryObject, Value, options_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

SEEDED = r"seed|generator|determin|broadcast|all_gather|scatter"
STARTS_PROCESSES = r"spawn|notebook_launcher|\bProcess\(|fork"
DRAWS = frozenset({"train_test_split", "shuffle", "random_split"})
SAMPLER = "torch.utils.data.DistributedSampler"
SEED_OF = {"random_split": ("generator", "torch.Generator().manual_seed(0)")}


class RankDependentData(Rule):
    level = Level.WARNING
    keywords = "DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if pipeline.source.notebook is not None:  # nobody launches a notebook several times
            return
        found: dict[Location, Finding] = {}
        for loader in pipeline.loaders:
            shared = _shared_out(pipeline, loader)
            for name, location in _draws(loader.dataset) if shared else ():
                if script_text.mentions(pipeline, STARTS_PROCESSES) or script_text.speaks_of(pipeline, SEEDED):
                    return
                found.setdefault(location, self._report(pipeline, name, location, shared))
        yield from found.values()

    def _report(self, pipeline: Pipeline, name: str, location: Location, shared: Location | None) -> Finding:
        argument, code = SEED_OF.get(name, ("seed", "0"))
        is_there = "torch" not in code or script_text.mentions(pipeline, r"(?m)^import torch$")
        return self.finding(
            location,
            f"each process draws its own `{name}`: nothing here sets a seed",
            related=[Related(shared, "the rows are shared out among the processes here", "loader")] if shared else [],
            help=f"add `{argument}={code}`",
            facts={"argument": argument if is_there else None, "code": code},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
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
        return Verdict.confirmed(f"{ranks.processes} processes have data sets of other rows ({lengths} of them)")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        argument, code = finding.facts.get("argument"), finding.facts.get("code")
        if not isinstance(argument, str) or not isinstance(code, str):
            return None
        return fixes.Fix.of(
            "draw the same in every process", fixes.AddArgument(finding.location, argument, code), safe=True
        )


def _shared_out(pipeline: Pipeline, loader: Loader) -> Location | None:
    """Where the rows of a loader are certainly shared out among processes."""
    for option in options_of(loader.value("sampler")):
        if isinstance(option, LibraryObject) and option.path == SAMPLER:
            return option.origin
    launched = any(each is loader for launcher in pipeline.launchers for each in launcher.prepared)
    return loader.origin if launched else None


def _draws(dataset: Value) -> Iterator[tuple[str, Location]]:
    """The operations behind a data set that draw rows at random: their names and places."""
    if isinstance(dataset, TorchDataset) and dataset.name in DRAWS and dataset.origin and dataset.is_complete:
        yield dataset.name, dataset.origin
    if isinstance(dataset, TorchDataset) and dataset.name in {"Subset", "random_split"}:
        yield from _draws(dataset.parts[0])
    for step in dataset.steps if isinstance(dataset, Dataset) else ():
        if step.operation in DRAWS and "**" not in step.text:
            yield step.operation, step.location
