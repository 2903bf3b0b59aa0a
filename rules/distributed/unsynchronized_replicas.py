"""The processes of a training hold different models, and nothing brings them together.

Each process computes gradients on its own rows. They are averaged by the wrapper around the model
(DistributedDataParallel, or what accelerate and Fabric make of it) in the calls of the wrapper alone: where the model
itself is called, or was never wrapped, every process trains a model of its own, and the one that is saved has seen one
process's share of the rows. Weights that are changed in one process after wrapping stay different too.

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

Weights are spread over the processes on purpose (FSDP, tensors with placements), or averaged every few steps: such a
training is not reported. Neither are processes that never join a group.

## Fix

None: what has to be the same in every process depends on where they part.

## References

PyTorch documentation, `DistributedDataParallel` ("Parameters are never broadcast between processes"); accelerate
documentation, `Accelerator.prepare`.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict


class UnsynchronizedReplicas(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        apart = len(ranks.apart)
        text = f"{apart} of {ranks.gradients} trained weights differ between {ranks.processes} processes"
        if not ranks.is_joined or not ranks.gradients:
            return Verdict.inconclusive(f"{text}, which form no group")
        if ranks.keeps_apart:
            return Verdict.inconclusive(f"{text}: `{ranks.keeps_apart}` lets them")
        steps = f"before step {ranks.steps}"
        if not apart:
            return Verdict.refuted(f"{text} {steps}", apart=0)
        if ranks.shared_rows is None or ranks.shared_rows == min(ranks.rows):
            return Verdict.inconclusive(
                f"{text}, but each may hold a part of a model: not known to train on rows of its own"
            )
        different = f"{len(ranks.different_gradients)} of {ranks.gradients} gradients after its first backward pass"
        return Verdict.confirmed(f"{text} {steps}, {different}, `{ranks.apart[0]}` among them", apart=apart)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "each process trains a model of its own",
            help="call the wrapped model in training, and change no weights after wrapping it",
        )
        yield from self.if_confirmed(finding, evidence)
