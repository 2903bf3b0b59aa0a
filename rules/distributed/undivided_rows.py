"""All processes of a training use the same rows.

The rows are not divided: there is no `DistributedSampler`, and no loader that Accelerate, Fabric or Lightning prepared.
With the same seed, every process computes the same gradient from the same batch, and so does their average: two
processes need as many steps as one, without any benefit.

## Bad

    import os

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29591", rank=0, world_size=processes)
    parallel = DistributedDataParallel(net)
    rows = DataLoader(TensorDataset(features, targets), batch_size=16)
    for epoch in range(2):
        for x, y in rows:
            optimizer.zero_grad()
            criterion(parallel(x), y).backward()  # <- undivided-rows
            optimizer.step()

## Good

    import os

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data.distributed import DistributedSampler

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29592", rank=0, world_size=processes)
    parallel = DistributedDataParallel(net)
    dataset = TensorDataset(features, targets)
    sampler = DistributedSampler(dataset)
    rows = DataLoader(dataset, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in rows:
            optimizer.zero_grad()
            criterion(parallel(x), y).backward()
            optimizer.step()

## When it is fine

Each process draws other rows, because its number is in the seed:

    import os

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29593", rank=0, world_size=processes)
    parallel = DistributedDataParallel(net)
    order = torch.Generator().manual_seed(dist.get_rank())
    rows = DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True, generator=order)
    for epoch in range(2):
        for x, y in rows:
            optimizer.zero_grad()
            criterion(parallel(x), y).backward()
            optimizer.step()

Processes with parts of one model (tensor parallelism, FSDP with parts of a sequence) share the same rows on purpose and
are not reported: their weights or batches differ. Processes that never join a group are not reported either.

## Fix

None: a sampler, one shard per process and a loader of the launcher are all reasonable.

## References

PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`; Accelerate documentation,
`Accelerator.prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import same_rows, unused_samplers
from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Pipeline, Related, Verdict, one_per_location


class UndividedRows(EvidenceRule):
    level = Level.ERROR
    keywords = "init_process_group|DistributedSampler & DDP|DistributedDataParallel|DistributedSampler"
    message = "every process trains on the same rows"
    help_text = "pass a `DistributedSampler` to the loader, or prepare the loader like the model"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        unused = map(self._report_unused, unused_samplers.unused_samplers(pipeline.source))
        yield from one_per_location(chain(unused, map(self._report_same, same_rows.same_rows(pipeline))))

    def _report_same(self, found: same_rows.SameRows) -> Finding:
        return self.finding(
            found.backward,
            self.message,
            related=[Related(found.location, "the same rows in each process", "rows")],
            help="give each process its own rows: a `DistributedSampler`, or a seed with the rank in it",
        )

    def _report_unused(self, found: unused_samplers.UnusedSampler) -> Finding:
        name = f"`{found.name}`" if len(found.name) <= 30 else "the sampler"
        return self.finding(
            found.loader,
            f"no loader gets {name}, so every process goes through all rows",
            related=[Related(found.location, "the sampler that divides them", "rows")],
            help=f"pass it to the loader: `sampler={found.name}`, without `shuffle`",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        text = f"{ranks.processes} processes have the same batch in {ranks.same_batches} of {ranks.steps} steps"
        if not ranks.is_joined:
            return Verdict.inconclusive(f"{text}, but are in no process group")
        if ranks.shared_rows == 0 and not ranks.same_batches:
            return Verdict.refuted(f"{text}, and no rows in common")
        if ranks.keeps_apart or ranks.apart:
            return Verdict.inconclusive(f"{text}, but different weights")
        if ranks.same_batches < ranks.steps or ranks.shared_rows is None:
            return Verdict.inconclusive(f"{text}; their rows may be divided")
        rows = " and ".join(map(str, ranks.rows))
        return Verdict.confirmed(f"{text}: {ranks.shared_rows} of {rows} rows", shared=ranks.shared_rows)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "unprepared-object"
