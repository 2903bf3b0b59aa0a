"""One process alone calls an operation that all processes have to call, and waits for the others forever.

`all_reduce`, `barrier`, `gather`, or the state of sharded weights need every process of the group. Under
`if rank == 0:` the first process waits in the call, and the others wait for it in their next one: the training hangs,
often without any message until a timeout of half an hour.

## Bad

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        loss = criterion(parallel(x), y)
        loss.backward()
        adam.step()
        if dist.get_rank() == 0:
            total = loss.detach().clone()
            dist.all_reduce(total)  # <- guarded-collective

The operation is in a function that the first process alone calls:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def mean_over_processes(value):
        value = value.detach().clone()
        dist.all_reduce(value)
        return value / dist.get_world_size()

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        loss = criterion(parallel(x), y)
        loss.backward()
        adam.step()
        if dist.get_rank() == 0:
            print(mean_over_processes(loss))  # <- guarded-collective

Accelerate's operations are the same:

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        accelerator.backward(loss)
        optimizer.step()
        if accelerator.is_main_process:
            print(accelerator.gather(loss.detach()).mean())  # <- guarded-collective

## Good

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        loss = criterion(parallel(x), y)
        loss.backward()
        adam.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(total)

and

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def mean_over_processes(value):
        value = value.detach().clone()
        dist.all_reduce(value)
        return value / dist.get_world_size()

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in train_loader:
        adam.zero_grad()
        loss = criterion(parallel(x), y)
        loss.backward()
        adam.step()
        mean = mean_over_processes(loss)
        if dist.get_rank() == 0:
            print(mean)

and

    accelerator = Accelerator(cpu=True)
    net, optimizer, train_loader = accelerator.prepare(net, optimizer, train_loader)
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        accelerator.backward(loss)
        optimizer.step()
        losses = accelerator.gather(loss.detach())
        if accelerator.is_main_process:
            print(losses.mean())

## When it is fine

One process goes first, and both sides call `barrier`:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    if dist.get_rank() != 0:
        dist.barrier()
    rows = features.clone()
    if dist.get_rank() == 0:
        dist.barrier()
    parallel = DistributedDataParallel(net)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(parallel(x), y).backward()
        optimizer.step()

Where other code runs in the other processes alone, in another branch or function, it may call the counterpart, and the
text is not judged. Neither are operations of a group that is named.

## Fix

None: the call moves out of the condition, or the condition goes around its result.

## References

PyTorch documentation, `torch.distributed` ("Collective functions"), `FullyShardedDataParallel.state_dict`; Accelerate
documentation, `Accelerator.gather`; DeepSpeed documentation, `save_checkpoint` ("all processes must call this method").
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import rank_conditions
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict
from lintrain.text import times

WHAT = {
    "barrier": "waits for all processes",
    "monitored_barrier": "waits for all processes",
    "wait_for_everyone": "waits for all processes",
    "log": "waits for all processes (`sync_dist=True`)",
    "log_dict": "waits for all processes (`sync_dist=True`)",
    "state_dict": "gathers the shards of all processes",
    "save_model": "gathers the shards of all processes",
    "save_checkpoint": "saves the shards of all processes",
}


class GuardedCollective(Rule):
    level = Level.ERROR
    keywords = "reduce|broadcast|gather|barrier|scatter|wait_for|save_|state_dict|sync_dist & rank|main|zero|sync_dist"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for source in pipeline.sources.values():
            for found in rank_conditions.guarded_collectives(source):
                related = [Related(found.test_at, "the other processes do not enter this branch", "condition")]
                if found.collective != found.at:
                    related.append(Related(found.collective, "all processes have to call this", "collective"))
                yield self.finding(
                    found.at,
                    f"only one process calls `{found.name}`, which {WHAT.get(found.name, 'needs all processes')}",
                    related=related,
                    help="call it in every process, and use its result under the condition",
                )

            for found in rank_conditions.logs_by_batch(source):
                yield self.finding(
                    found.at,
                    "each process logs by its own batch, and `sync_dist=True` waits for all",
                    related=[Related(found.test_at, "processes may decide differently here", "condition")],
                    help="log the same names in every process, in the same order",
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        ranks = evidence.ranks
        waits = [wait for wait in ranks.waits if wait.is_unmatched] if ranks is not None else []
        if ranks is not None and waits and waits[0].location is not None:
            wait = waits[0]
            yield self.finding(
                waits[0].location,
                f"rank {wait.rank} waits in `{wait.function}`, which other processes do not call",
                help="call it in every process, and use its result under the condition",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        locations = [finding.location, *(each.location for each in finding.with_role("collective"))]
        for location in locations:
            for wait in ranks.waits_at(location):
                calls = ", ".join(f"rank {rank} calls it {times(number)}" for rank, number in enumerate(wait.calls))
                return Verdict.confirmed(f"rank {wait.rank} waits in `{wait.function}` for ever; {calls}")
        if ranks.waits:
            return Verdict.inconclusive(f"rank {ranks.waits[0].rank} waits at another line")
        if any(ranks.calls_at(location) for location in locations):
            return Verdict.refuted(f"{ranks.processes} processes called it and went on")
        return Verdict.inconclusive(f"no process ran this line in {ranks.steps} steps")
