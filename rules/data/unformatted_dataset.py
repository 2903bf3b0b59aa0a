"""A loop of one's own gets lists where it needs tensors.

A data set of the library `datasets` gives Python lists. `DataLoader` puts lists of rows together position by position:
a batch of 16 rows of 128 tokens becomes 128 tensors of 16 numbers, which no model takes for token ids.

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

A collator makes tensors of the lists:

    loader = DataLoader(columns["train"], batch_size=16, shuffle=True, collate_fn=collator)
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

Code may put the positions together again by itself:

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

Safe: lists of lists in the stead of tensors end the run at the first call of the model.

## References

Datasets documentation, "Use with PyTorch"; the error is that of torch 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loaders, raggedness, training_loops
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import is_missing
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

MAKES_TENSORS = frozenset({"stack", "as_tensor", "set_format", "set_transform", "with_format", "with_transform"})
"""Functions that format rows, or that put the positions of a batch together again."""

RAISED = "'list' object has no attribute"


class UnformattedDataset(Rule):
    level = Level.ERROR
    keywords = "DataLoader & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        for loader in dict.fromkeys(feeding.loader for feeding in loaders.feedings(pipeline)):
            dataset = loader.dataset
            if not isinstance(dataset, Dataset) or not _gives_lists(loader, dataset) or _makes_tensors(pipeline):
                continue
            if not raggedness.ragged_at(pipeline, dataset):  # rows of several lengths: unpadded-batch tells it
                yield from self._report(pipeline, loader, dataset)

    def _report(self, pipeline: Pipeline, loader: Loader, dataset: Dataset) -> Iterator[Finding]:
        location = loader.dataset_location
        if location is None or loader.origin is None or location.path != pipeline.source.path:
            return
        text, last = pipeline.code(location), dataset.steps[-1]
        yield self.finding(
            loader.origin,
            "the batches of this loader hold lists of token positions, no tensors of rows",
            related=[Related(last.location, "made here, without a format", "made", last.text)],
            help=f'give it `{text}.with_format("torch")`' if text.isidentifier() else 'use `with_format("torch")`',
            facts={"text": text, **location.as_facts()},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.failed_with(RAISED):
            return Verdict.confirmed(f"`{RAISED}` is raised")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        return (
            Verdict.refuted(f"{loop.backwards} batches went through the loop")
            if loop.backwards
            else Verdict.inconclusive(f"{loop.batches} batches were taken")
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        location, text = finding.location_in_facts, str(finding.facts["text"])
        if location is None or "\n" in text:
            return None
        return fixes.Fix.of("give tensors", fixes.Replace(location, f'{text}.with_format("torch")'), safe=True)


def _makes_tensors(pipeline: Pipeline) -> bool:
    """Whether the script names what makes tensors; a variable is often called `tensor`: of that only `torch.tensor`."""
    source = pipeline.source
    attributes = {node.attr for node in source.nodes_of(ast.Attribute)}
    names = {node.id for node in source.nodes_of(ast.Name)}
    return "tensor" in attributes or not MAKES_TENSORS.isdisjoint(attributes | names)


def _gives_lists(loader: Loader, dataset: Dataset) -> bool:
    """Whether token rows certainly come as lists and are put together by torch's own collator."""
    if dataset.is_default or dataset.is_streaming or dataset.format is not None or dataset.has_transform:
        return False
    return dataset.is_tokenized and is_missing(loader.value("collate_fn"))
