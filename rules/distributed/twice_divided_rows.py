"""The rows are divided among the processes twice, so most of them are not used.

A data set that each process cuts by its rank holds the part of this process. A `DistributedSampler`, Accelerate and
the Trainer expect the same rows in all processes, and give each of them its share again: of two processes each trains
on half of its half, and no error is raised. Of a stream, Accelerate uses only the part of the first process.

## Bad

    accelerator = Accelerator(cpu=True)
    rows = columns["train"].shard(accelerator.num_processes, accelerator.process_index)  # <- twice-divided-rows
    batches = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collator)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        accelerator.backward(model(**batch).loss)
        optimizer.step()

Accelerate does not recognize a sampler that divides the rows:

    from torch.utils.data.distributed import DistributedSampler

    accelerator = Accelerator(cpu=True)
    sampler = DistributedSampler(columns["train"], num_replicas=2, rank=0)  # <- twice-divided-rows
    batches = DataLoader(columns["train"], batch_size=8, sampler=sampler, collate_fn=collator)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    model.train()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in batches:
            optimizer.zero_grad()
            accelerator.backward(model(**batch).loss)
            optimizer.step()

## Good

    accelerator = Accelerator(cpu=True)
    batches = DataLoader(columns["train"], batch_size=8, shuffle=True, collate_fn=collator)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        accelerator.backward(model(**batch).loss)
        optimizer.step()

## When it is fine

A loader that nothing else divides gets the part of its process:

    accelerator = Accelerator(cpu=True)
    rows = columns["train"].shard(num_shards=accelerator.num_processes, index=accelerator.process_index)
    batches = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collator)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        accelerator.backward(model(**batch.to(accelerator.device)).loss)
        optimizer.step()

## Fix

None: each of the two divisions may be the one to remove.

## References

Accelerate documentation, `Accelerator.prepare`; Datasets documentation, `split_dataset_by_node`. Measured on two
processes with accelerate 1.15 and datasets 5.2: of 64 rows, 32 are used in an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import divided_rows
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import Value, options_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, one_per_location

OWN_LOADERS = frozenset({"get_train_dataloader", "_get_dataloader", "get_batch_samples"})
"""Methods of a Trainer that make its loader; those of a subclass need not divide the rows."""


class TwiceDividedRows(Rule):
    level = Level.ERROR
    keywords = "DistributedSampler|Accelerator|Trainer|Fabric & rank|process_index|Sampler"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if pipeline.source.notebook is None:  # launchers do not start notebooks
            yield from one_per_location(self._found(pipeline))

    def _found(self, pipeline: Pipeline) -> Iterator[Finding]:
        for loader in pipeline.loaders:
            launcher = divided_rows.launcher_of(pipeline, loader)
            is_divided = launcher is not None and (launcher.is_accelerator or not _may_stream(loader.dataset))
            name = "Accelerate" if launcher is not None and launcher.is_accelerator else "Fabric"
            sampler = divided_rows.sampler_of(loader)
            if sampler is not None and divided_rows.is_asked_for(pipeline, sampler):
                continue  # the caller may ask for it only without a launcher
            if sampler is not None and launcher is not None and launcher.is_accelerator:
                yield self._report("DistributedSampler", sampler, name, loader.origin)
            elif is_divided:
                yield from self._cut(pipeline, loader.dataset, name, loader.origin)
            if sampler is not None and divided_rows.counts_all_processes(pipeline, sampler):
                yield from self._cut(pipeline, loader.dataset, "the sampler", sampler)
        for run in pipeline.runs:
            if run.train_calls and not run.overrides & OWN_LOADERS:
                yield from self._cut(pipeline, run.value("train_dataset"), "the Trainer", run.construction)

    def _cut(self, pipeline: Pipeline, rows: Value, second: str, at: Location | None) -> Iterator[Finding]:
        for division in divided_rows.by_process(pipeline, rows):
            yield self._report(division.name, division.location, second, at)

    def _report(self, name: str, location: Location, second: str, at: Location | None) -> Finding:
        return self.finding(
            location,
            f"`{name}` divides the rows, and {second} divides them again",
            related=[Related(at, "divides the rows among the processes")] if at else [],
            help=f"give all rows to every process, without `{name}`",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        ranks = evidence.ranks
        if ranks is None:
            return Verdict.inconclusive(evidence.unasked("ranks"))
        used = ranks.used_rows
        if used is None or ranks.same_dataset is None:
            return Verdict.inconclusive(f"the rows of {ranks.processes} processes cannot be counted")
        of_each = max(rows or 0 for rows in ranks.dataset_rows)
        # The same rows in all processes are divided once; other rows in each of them are not to be divided again.
        there = of_each if ranks.same_dataset else of_each * ranks.processes
        text = f"{ranks.processes} processes use {used} of {there} rows in an epoch"
        slack = sum(size or 0 for size in ranks.batch_sizes)
        if used + slack < there and used <= there / ranks.processes + slack:
            return Verdict.confirmed(text, used=used, rows=there)
        return Verdict.refuted(text, used=used, rows=there)


def _may_stream(dataset: Value) -> bool:
    """Whether a launcher may leave a data set alone since it has no sampler."""
    return any(not isinstance(each, Dataset) or each.is_streaming for each in options_of(dataset))
