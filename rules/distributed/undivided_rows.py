"""All processes of a training work on the same rows.

Nothing shares the rows out: no DistributedSampler, no loader that accelerate, Fabric or Lightning prepared. With one
seed for all, every process computes the same gradient of the same batch, and the average of them is that gradient: two
processes take as many steps as one and learn nothing more from them.

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

Processes that hold parts of one model (tensor parallel, FSDP with parts of a sequence) work on the same rows together,
and are not reported: their weights or batches differ. Processes that never join a group are not reported either.

## Fix

None: a sampler, a shard for each process and a loader of the launcher are all reasonable.

## References

PyTorch documentation, `torch.utils.data.distributed.DistributedSampler`; accelerate's, `Accelerator.prepare`.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict


class UndividedRows(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        text = f"{ranks.same_batches} of {ranks.steps} steps are on the same batch in {ranks.processes} processes"
        if not ranks.is_joined:
            return Verdict.inconclusive(f"{text}, which form no group")
        if ranks.shared_rows == 0 and not ranks.same_batches:
            return Verdict.refuted(f"{text}, and 0 of their rows")
        if ranks.keeps_apart or ranks.apart:
            return Verdict.inconclusive(f"{text}, which do not hold the same weights")
        if ranks.same_batches < ranks.steps or ranks.shared_rows is None:
            return Verdict.inconclusive(f"{text}; their rows may be shared out")
        rows = " and ".join(map(str, ranks.rows))
        return Verdict.confirmed(f"{text}: {ranks.shared_rows} of {rows} rows", shared=ranks.shared_rows)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "every process trains on the same rows",
            help="give the loader a DistributedSampler, or to the launcher that prepares the model",
        )
        yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "unprepared-object"
