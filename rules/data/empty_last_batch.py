"""The only batch of an epoch is dropped.

With `drop_last`, a loader drops an incomplete last batch. If the batch size is larger than the data set, this is the
only batch: an epoch has no step. Trainer raises an error about the length of the loader; a custom loop runs without
training anything.

## Bad

    rows = Dataset.from_dict({"text": ["a good film", "a bad film", "fine"], "label": [1, 0, 1]})
    rows = rows.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", per_device_train_batch_size=32, dataloader_drop_last=True)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- empty-last-batch

A custom loop runs without an error:

    few = TensorDataset(torch.randn(24, 8), torch.randint(3, (24,)))
    loader = DataLoader(few, batch_size=32, shuffle=True, drop_last=True)  # <- empty-last-batch
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    rows = Dataset.from_dict({"text": ["a good film", "a bad film", "fine"], "label": [1, 0, 1]})
    rows = rows.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", per_device_train_batch_size=32)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

and

    few = TensorDataset(torch.randn(24, 8), torch.randint(3, (24,)))
    loader = DataLoader(few, batch_size=32, shuffle=True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

or with smaller batches, of which only the last is dropped:

    rows = Dataset.from_dict({"text": ["a good film", "a bad film", "fine"], "label": [1, 0, 1]})
    rows = rows.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", per_device_train_batch_size=2, dataloader_drop_last=True)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

## When it is fine

With as many rows as the batch size, there is one full batch. The number of rows after a `filter` is unknown:

    rows = Dataset.from_dict({"text": ["a good film", "a bad film", "fine"], "label": [1, 0, 1]})
    rows = rows.map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments("out", per_device_train_batch_size=3, dataloader_drop_last=True)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

    rows = tokenized["train"].filter(lambda row: row["label"] != 2)
    args = TrainingArguments("out", per_device_train_batch_size=32, dataloader_drop_last=True)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

## Fix

Asks first: the fix keeps the last batch, and a smaller batch size is as reasonable. Offered if `True` is written in the
call that creates the loader or the training arguments.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: `drop_last`. The error is that of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import run_data
from lintrain.pipeline import dataset_rows
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.python import Value, is_true, literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.run import MadeLoader

WRITTEN = lazy_pattern(r"\b((?:dataloader_)?drop_last)\s*=\s*True\b")
RAISED = ("max_steps must be set to a positive value",)
NO_BATCH = "the training loader yields no batch"
"""What a probe says that asked the loader for one."""


class EmptyLastBatch(Rule):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.is_plain or run.overrides & run_data.OWN_LOADING:
                continue
            if is_true(settings.value("dataloader_drop_last")):
                size = settings.value("per_device_train_batch_size")
                drops = _dropping(pipeline, settings.origin, settings.locations.get("dataloader_drop_last"))
                yield from self._judge(run.value("train_dataset"), size, run.construction, drops)
        for loader in pipeline.loaders:
            if loader.origin and loader.is_complete and is_true(loader.value("drop_last")):
                drops = _dropping(pipeline, loader.origin, loader.locations.get("drop_last"))
                yield from self._judge(loader.dataset, loader.value("batch_size"), loader.origin, drops)

    def _judge(self, dataset: Value, size: Value, location: Location, drops: list[Related]) -> Iterator[Finding]:
        number = literal(size)
        rows = _count(dataset)
        if rows is None or not isinstance(number, int) or rows >= number:
            return
        made = dataset.steps[0].location if isinstance(dataset, Dataset) else dataset.origin
        yield self.finding(
            location,
            f"{rows} rows do not fill a batch of {number}, and incomplete batches are dropped",
            related=[*([Related(made, "the rows come from here")] if made else []), *drops],
            help="use a smaller batch size, or keep the last batch",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        remedy = "use a smaller batch size, or keep the last batch"
        for loader in evidence.objects.loaders:
            if loader.rows and loader.batches == 0:
                message = (
                    f"{loader.rows} rows do not fill a batch of {loader.batch_size}, and incomplete ones are dropped"
                )
                yield self.finding(loader.location, message, help=remedy)
        train = evidence.split("train_dataset")
        if evidence.trainer != "a loop" and train is not None and train.rows:
            yield self.finding(evidence.location, f"{train.rows} rows make no batch at all", help=remedy)

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED) or evidence.stage("batch")
        failed = stage is not None and stage.failure is not None and stage.failure.contains(*RAISED)
        if stage is not None and (failed or NO_BATCH in stage.reason):
            return Verdict.confirmed(f"an epoch has 0 batches in the {stage.name} stage")
        made = evidence.objects.loaders_at(finding.location)
        if made:
            return _of_loaders(made)
        batch = evidence.batch("train_dataset")
        if batch is not None:
            return Verdict.refuted(f"the loader has a batch of {batch.rows} rows")
        return Verdict.inconclusive(evidence.not_reached("batch"))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.RemoveArgument(each.location, each.text) for each in finding.with_role("dropping")]
        return fixes.Fix.of("keep the last batch", *edits, safe=False) if edits else None


def _dropping(pipeline: Pipeline, call: Location | None, given: Location | None) -> list[Related]:
    """The call in which `drop_last=True` is written, for the fix to remove."""
    if call is None or given is None or not call.holds(given):
        return []
    written = WRITTEN.search(pipeline.code(call))
    return [Related(call, "drops incomplete batches", "dropping", written[1])] if written else []


def _of_loaders(made: tuple[MadeLoader, ...]) -> Verdict:
    loader = min(made, key=lambda each: 1 if each.batches is None else each.batches)
    if loader.batches is None:
        return Verdict.inconclusive("the loader has no length, so its batches are not counted")
    text = f"{loader.rows} rows make {loader.batches} batches of {loader.batch_size}"
    return (Verdict.refuted if loader.batches else Verdict.confirmed)(text, batches=loader.batches, rows=loader.rows)


def _count(dataset: Value) -> int | None:
    """How many rows a data set certainly has."""
    match dataset:
        case Dataset(may_differ=False):
            return dataset_rows.rows_of(dataset)
        case TorchDataset(rows=rows):
            return rows
        case _:
            return None
