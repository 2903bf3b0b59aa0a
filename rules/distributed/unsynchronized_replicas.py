"""The processes of a training have different weights, which are never synchronized.

Each process computes gradients on its own rows. Only a call of the wrapped model (`DistributedDataParallel`, or the
model that Accelerate or Fabric prepared) averages them. If the script calls the original model, or never wraps it,
every process trains a separate model, and the saved one has used only the rows of one process. Weights that one process
changes after wrapping also stay different.

## Bad

    from torch.utils.data.distributed import DistributedSampler

    sampler = DistributedSampler(loader.dataset, num_replicas=1, rank=0)
    shared = DataLoader(loader.dataset, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in shared:
            optimizer.zero_grad()
            criterion(net(x), y).backward()  # <- unsynchronized-replicas
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
processes that never join a group.

## Fix

None: the fix depends on where the processes diverge.

## References

PyTorch documentation, `DistributedDataParallel` ("Parameters are never broadcast between processes"); Accelerate
documentation, `Accelerator.prepare`.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict


class UnsynchronizedReplicas(EvidenceRule):
    level = Level.ERROR
    message = "each process trains a separate model, without synchronization"
    help_text = "call the wrapped model in training, and do not change weights after wrapping it"

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
