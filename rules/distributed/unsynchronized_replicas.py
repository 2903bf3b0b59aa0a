"""The processes of a training have different weights, which are never synchronized.

Each process computes gradients on its own rows. Only a call of the wrapped model (`DistributedDataParallel`, or the
model that Accelerate or Fabric prepared) averages them. If the script calls the original model, or never wraps it,
every process trains a separate model, and the saved one has used only the rows of one process.

Weights that one process changes after wrapping also stay different. Inside `no_sync` gradients are only added up: the
last backward pass before a step has to be outside of it.

## Bad

    import torch.distributed as dist
    from torch.utils.data.distributed import DistributedSampler

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29580", rank=0, world_size=1)
    sampler = DistributedSampler(loader.dataset)
    shared = DataLoader(loader.dataset, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in shared:
            optimizer.zero_grad()
            criterion(net(x), y).backward()  # <- unsynchronized-replicas
            optimizer.step()

The model is wrapped, but the loop calls it without the wrapper:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29582", rank=0, world_size=1)
    parallel = DistributedDataParallel(net)  # <- unsynchronized-replicas
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Gradients are accumulated over all batches in `no_sync`, also over the last:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29584", rank=0, world_size=1)
    parallel = DistributedDataParallel(net)
    for x, y in loader:
        optimizer.zero_grad()
        for part in range(2):
            with parallel.no_sync():  # <- unsynchronized-replicas
                (criterion(parallel(x[part::2]), y[part::2]) / 2).backward()
        optimizer.step()

## Good

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data.distributed import DistributedSampler

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29581", rank=0, world_size=1)
    sampler = DistributedSampler(loader.dataset)
    shared = DataLoader(loader.dataset, batch_size=16, sampler=sampler)
    parallel = DistributedDataParallel(net)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in shared:
            optimizer.zero_grad()
            criterion(parallel(x), y).backward()
            optimizer.step()

## When it is fine

Weights that are sharded over the processes (FSDP, `DTensor`) or averaged every few steps are not reported. Neither are
processes that never join a group, or whose gradients other code averages:

    import torch.distributed as dist
    from torch.utils.data.distributed import DistributedSampler

    def average(parameters):
        for parameter in parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29583", rank=0, world_size=1)
    sampler = DistributedSampler(loader.dataset)
    shared = DataLoader(loader.dataset, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in shared:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            average(net.parameters())
            optimizer.step()

## Fix

None: the fix depends on where the processes diverge.

## References

PyTorch documentation, `DistributedDataParallel` ("Parameters are never broadcast between processes"); Accelerate
documentation, `Accelerator.prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import sync_contexts, wrong_names
from lintrain.pipeline.events import Event
from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Pipeline, Related, Verdict, one_per_location


class UnsynchronizedReplicas(EvidenceRule):
    level = Level.ERROR
    keywords = "DistributedDataParallel|DDP|DistributedSampler|no_sync & backward"
    message = "each process trains a separate model, without synchronization"
    help_text = "call the wrapped model in training, and do not change weights after wrapping it"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report_backward(each) for each in wrong_names.unwrapped_backwards(pipeline))
        yield from self._report_unused(pipeline)
        for context in sync_contexts.never_synchronized(pipeline.source):
            yield self.finding(
                context.location,
                "every backward pass is inside `no_sync`, so gradients are never averaged",
                related=[Related(context.backward, "a backward pass of this process alone", "backward")],
                why="Inside `no_sync` each process only adds up the gradients of its own rows. Without a backward pass"
                " outside of it, every process trains a separate model, and no error is raised.",
                help="leave the last batch before each step outside of `no_sync`",
            )

    def _report_backward(self, backward: Event) -> Finding:
        return self.finding(backward.location, self.message, help="wrap the model in `DistributedDataParallel`")

    def _report_unused(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in wrong_names.unused_wrappers(pipeline):
            shown = f"`{found.wrapper}`" if len(found.wrapper) <= 24 else "the wrapped model"
            yield self.finding(
                found.location,
                f"{shown} is never called, so gradients are not averaged",
                related=[Related(found.called, "the model is called without the wrapper", "call")],
                help=self.help_text,
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        apart = len(ranks.apart)
        text = f"{apart} of {ranks.gradients} trained weights differ between {ranks.processes} processes"
        if not ranks.is_joined or not ranks.gradients:
            return Verdict.inconclusive(f"{text}, which are in no process group")
        if ranks.keeps_apart:
            return Verdict.inconclusive(f"{text}, which `{ranks.keeps_apart}` allows")
        steps = f"before step {ranks.steps}"
        if not apart:
            return Verdict.refuted(f"{text} {steps}", apart=0)
        if ranks.shared_rows is None or ranks.shared_rows == min(ranks.rows):
            return Verdict.inconclusive(
                f"{text}, but the rows do not show whether each process holds a shard of one model"
            )
        different = f"{len(ranks.different_gradients)} of {ranks.gradients} gradients after its first backward pass"
        return Verdict.confirmed(f"{text} {steps}, and {different}, for example `{ranks.apart[0]}`", apart=apart)
