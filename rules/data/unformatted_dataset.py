"""A custom training loop gets lists instead of tensors.

A data set of the library `datasets` returns Python lists. `DataLoader` collates lists by position: a batch of 16 rows
with 128 tokens becomes a list of 128 tensors with 16 numbers, which a model does not accept as token ids.

## Bad

    def pad(batch):
        return tokenizer(batch["premise"], batch["hypothesis"], truncation=True, padding="max_length", max_length=16)

    rows = raw["train"].map(pad, batched=True).remove_columns(["premise", "hypothesis", "idx"])
    rows = rows.rename_column("label", "labels")
    loader = DataLoader(rows, batch_size=16, shuffle=True)  # <- unformatted-dataset
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        model(**batch).loss.backward()
        optimizer.step()
    # raises AttributeError: 'list' object has no attribute 'to'

## Good

    def pad(batch):
        return tokenizer(batch["premise"], batch["hypothesis"], truncation=True, padding="max_length", max_length=16)

    rows = raw["train"].map(pad, batched=True).remove_columns(["premise", "hypothesis", "idx"])
    rows = rows.rename_column("label", "labels")
    loader = DataLoader(rows.with_format("torch"), batch_size=16, shuffle=True)
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

A collator converts the lists to tensors:

    loader = DataLoader(columns["train"], batch_size=16, shuffle=True, collate_fn=collator)
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

The loop may stack the positions itself:

    def pad(batch):
        return tokenizer(batch["premise"], batch["hypothesis"], truncation=True, padding="max_length", max_length=16)

    rows = raw["train"].map(pad, batched=True)
    loader = DataLoader(rows, batch_size=16, shuffle=True)
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        ids, mask = (torch.stack(batch[name], dim=1) for name in ("input_ids", "attention_mask"))
        model(input_ids=ids, attention_mask=mask, labels=batch["label"]).loss.backward()
        optimizer.step()

## Fix

Safe: with lists instead of tensors, the first call of the model raises an error.

## References

Datasets documentation, "Use with PyTorch"; the error is that of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, loaders, script_text, training_loops
from lintrain.evidence.run import Failure
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import is_missing
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

MAKES_TENSORS = frozenset({"stack", "as_tensor", "set_format", "set_transform", "with_format", "with_transform"})
"""Functions that set the format of rows, or that stack the positions of a batch."""

RAISED = "'list' object has no attribute"
OF_TENSORS = lazy_pattern(
    r"'list' object has no attribute '(?:to|cuda|cpu|size|shape|device|dtype|dim|ndim|view|reshape|permute"
    r"|(?:un)?squeeze|flatten|float|long|half|int|bool|numel|sum|mean|detach|clone|contiguous|type|unbind|transpose)'"
)
"""What a loop asks of a batch that it takes for a tensor; `get` and `items` are asked of other objects."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The data set argument of the loader: where it is, and its code."""

    dataset: Location
    code: str


class UnformattedDataset(Rule[Claim]):
    level = Level.ERROR
    keywords = "DataLoader & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        for loader in dict.fromkeys(feeding.loader for feeding in loaders.feedings(pipeline)):
            dataset = loader.dataset
            if not isinstance(dataset, Dataset) or not _returns_lists(loader, dataset) or _makes_tensors(pipeline):
                continue
            if not collators.ragged_at(pipeline, dataset):  # unpadded-batch reports rows of different lengths
                yield from self._report(pipeline, loader, dataset)

    def _report(self, pipeline: Pipeline, loader: Loader, dataset: Dataset) -> Iterator[Finding[Claim]]:
        location = loader.dataset_location
        if location is None or loader.origin is None or location.path != pipeline.source.path:
            return
        text, last = pipeline.code(location), dataset.steps[-1]
        yield self.finding(
            loader.origin,
            "the batches of this loader are lists of token positions, not tensors of rows",
            related=[Related(last.location, "created here, without a format", "made", last.text)],
            help=f'pass `{text}.with_format("torch")`' if text.isidentifier() else 'use `with_format("torch")`',
            claim=Claim(location, text),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failure = _failure(evidence)
        if failure is not None and failure.location is not None:
            yield self.finding(
                failure.location,
                "this loop gets lists instead of tensors",
                help='convert the rows: `dataset.with_format("torch")`',
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if _failure(evidence) is not None:
            return Verdict.confirmed(f"the training raises `{RAISED}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        return (
            Verdict.refuted(f"the loop trained on {loop.backwards} batches without an error")
            if loop.backwards
            else Verdict.inconclusive(f"the loop read {loop.batches} batches, but ran no backward pass")
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or "\n" in claim.code:
            return None
        edit = fixes.Replace(claim.dataset, f'{claim.code}.with_format("torch")')
        return fixes.Fix.of("convert the rows to tensors", edit, safe=True)


def _failure(evidence: Evidence) -> Failure | None:
    """The error of a list that was taken for a tensor; None if the run ended with none, or with another one."""
    failed = evidence.failed_with(RAISED)
    failure = failed.failure if failed is not None else None
    return failure if failure is not None and OF_TENSORS.match(failure.message) is not None else None


def _makes_tensors(pipeline: Pipeline) -> bool:
    """Whether the script names a function that makes tensors; `tensor` only as attribute, since variables have it."""
    attributes = script_text.attribute_names(pipeline.source)
    return "tensor" in attributes or not MAKES_TENSORS.isdisjoint(attributes | script_text.variables(pipeline.source))


def _returns_lists(loader: Loader, dataset: Dataset) -> bool:
    """Whether token rows are certainly lists, and PyTorch's default collator collates them."""
    if dataset.may_differ or dataset.is_streaming or dataset.format is not None or dataset.has_transform:
        return False
    return dataset.is_tokenized and is_missing(loader.value("collate_fn"))
