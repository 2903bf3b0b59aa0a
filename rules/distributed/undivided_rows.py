"""All processes of a training use the same rows.

The rows are not divided: there is no `DistributedSampler`, and no loader that Accelerate, Fabric or Lightning prepared.
With the same seed, every process computes the same gradient from the same batch, and so does their average: two
processes need as many steps as one, without any benefit.

## Bad

    same = torch.Generator().manual_seed(0)
    rows = DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True, generator=same)
    for epoch in range(2):
        for x, y in rows:
            optimizer.zero_grad()
            criterion(net(x), y).backward()  # <- undivided-rows
            optimizer.step()

## Good

    from torch.utils.data.distributed import DistributedSampler

    dataset = TensorDataset(features, targets)
    sampler = DistributedSampler(dataset, num_replicas=2, rank=0)
    rows = DataLoader(dataset, batch_size=16, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in rows:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## When it is fine

Processes with parts of one model (tensor parallelism, FSDP with parts of a sequence) share the same rows on purpose and
are not reported: their weights or batches differ. Processes that never join a group are not reported either.

## Fix

None: a sampler, one shard per process and a loader of the launcher are all reasonable.

## References

PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`; Accelerate documentation,
`Accelerator.prepare`.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict


class UndividedRows(EvidenceRule):
    level = Level.ERROR
    message = "every process trains on the same rows"
    help_text = "pass a `DistributedSampler` to the loader, or prepare the loader like the model"

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
