"""Batch norm normalizes with the few rows of one process, though the batch is divided among several.

`DistributedDataParallel` averages gradients, and leaves the statistics of batch norm to each process. With a handful of
rows they are noisy, and the running statistics that an evaluation uses are those of the first process. On one device
with the whole batch the same script trains differently.

## Bad

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    parallel = DistributedDataParallel(network)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in DataLoader(TensorDataset(features, targets), batch_size=4, shuffle=True):
        adam.zero_grad()
        criterion(parallel(x), y).backward()  # <- unsynchronized-batch-norm
        adam.step()

## Good

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    network = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))
    parallel = DistributedDataParallel(network)
    adam = torch.optim.Adam(parallel.parameters())
    for x, y in DataLoader(TensorDataset(features, targets), batch_size=4, shuffle=True):
        adam.zero_grad()
        criterion(parallel(x), y).backward()
        adam.step()

## When it is fine

With 16 rows or more in each process the statistics are good enough for most networks, and the rule reports nothing.
Neither does it where the batch norms are in evaluation mode.

## Fix

None: `SyncBatchNorm` needs a GPU and time for its communication; another norm or a larger batch may be better.

## References

PyTorch documentation, `torch.nn.SyncBatchNorm.convert_sync_batchnorm`; Wu and He, "Group Normalization" (2018), on
batch norm with small batches.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

ENOUGH_ROWS = 16


class UnsynchronizedBatchNorm(EvidenceRule):
    level = Level.NOTE
    message = "batch norm uses the statistics of the few rows of one process"
    help_text = "convert the model before wrapping it: `nn.SyncBatchNorm.convert_sync_batchnorm(model)`"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        if not ranks.batch_norms:
            return Verdict.refuted("no replica has a batch norm of its own")
        sizes = [size for size in ranks.batch_sizes if size]
        if not ranks.is_joined or not sizes:
            return Verdict.inconclusive("the rows of each process in a step are not known")
        uses = "norms use" if ranks.batch_norms > 1 else "norm uses"
        text = f"{ranks.batch_norms} batch {uses} {min(sizes)} rows in each of {ranks.processes} processes"
        return Verdict.confirmed(text, rows=min(sizes)) if min(sizes) < ENOUGH_ROWS else Verdict.refuted(text)
