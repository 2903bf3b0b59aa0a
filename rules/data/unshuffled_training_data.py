"""The rows that train a model come in the same order in every epoch.

A loader that is not told to shuffle reads from the first row to the last, each time. Rows that lie together in the file
make up a batch together in every epoch; where they are sorted, a batch holds one class and the model follows it.

## Bad

    rows = load_dataset("glue", "mnli", split="train").map(tokenize, batched=True)
    rows = rows.remove_columns(["premise", "hypothesis", "idx"]).rename_column("label", "labels")
    loader = DataLoader(rows, batch_size=16, collate_fn=collator)  # <- unshuffled-training-data
    model.train()
    for epoch in range(2):
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

and

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 96

        def __getitem__(self, index):
            return torch.full((8,), index / 96), index % 3

    loader = DataLoader(Squares(), batch_size=16, shuffle=False)  # <- unshuffled-training-data
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

and

    rows = [(torch.full((8,), 0.1), 0), (torch.full((8,), 0.5), 1), (torch.full((8,), 0.9), 2)] * 32
    loader = DataLoader(rows, batch_size=16)  # <- unshuffled-training-data
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Good

    rows = load_dataset("glue", "mnli", split="train").map(tokenize, batched=True)
    rows = rows.remove_columns(["premise", "hypothesis", "idx"]).rename_column("label", "labels")
    loader = DataLoader(rows, batch_size=16, collate_fn=collator, shuffle=True)
    model.train()
    for epoch in range(2):
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

and

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 96

        def __getitem__(self, index):
            return torch.full((8,), index / 96), index % 3

    loader = DataLoader(Squares(), batch_size=16, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

and

    rows = [(torch.full((8,), 0.1), 0), (torch.full((8,), 0.5), 1), (torch.full((8,), 0.9), 2)] * 32
    loader = DataLoader(rows, batch_size=16, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## When it is fine

Rows that were drawn or shuffled before:

    rows = columns["train"].shuffle(seed=42)
    loader = DataLoader(rows, batch_size=16, collate_fn=collator)
    model.train()
    for epoch in range(2):
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    drawn = TensorDataset(torch.randn(96, 8), torch.randint(3, (96,)))
    loader = DataLoader(drawn, batch_size=16)
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

A loader that only evaluates:

    loader = DataLoader(columns["validation_matched"], batch_size=16, collate_fn=collator)
    model.eval()
    with torch.no_grad():
        for batch in loader:
            model(**batch)

A loader that comes from elsewhere, or that a sampler puts in order:

    def fit(rows, sampler):
        loader = DataLoader(rows, batch_size=16, sampler=sampler)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()

One pass over the rows, in the order that their author chose:

    loader = DataLoader(columns["train"], batch_size=16, collate_fn=collator)
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    epochs = 1
    loader = DataLoader(columns["train"], batch_size=16, collate_fn=collator, shuffle=False)
    model.train()
    for epoch in range(epochs):
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

## Fix

Asks first: from then on each run reads the rows in an order of its own, and one that was repeatable needs a seed.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: without `shuffle` or a sampler it takes a `SequentialSampler`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loaders, training_loops
from lintrain.pipeline import dataset_rows
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Constant, Instance, is_missing, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

ORDERED = frozenset({"SequentialSampler"})
"""Samplers that give the rows in one order, epoch by epoch."""


class UnshuffledTrainingData(Rule):
    level = Level.WARNING
    keywords = "DataLoader & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        seen: set[Loader] = set()
        for feeding in loaders.feedings(pipeline):
            loader = feeding.loader
            if loader not in seen and feeding.is_repeated and self._keeps_order(pipeline, loader):
                seen.add(loader)
                yield self._report(pipeline, feeding)

    def _keeps_order(self, pipeline: Pipeline, loader: Loader) -> bool:
        location = loader.origin
        if location is None:
            return False
        if not _is_told_nothing(loader) or _is_one_batch(loader):
            return False
        if not loaders.is_map_style(loader.dataset) or not dataset_rows.keeps_source_order(pipeline, loader.dataset):
            return False
        return not loaders.is_deliberate(pipeline, location)

    def _report(self, pipeline: Pipeline, feeding: loaders.Feeding) -> Finding:
        loader = feeding.loader
        assert loader.origin is not None
        told = loader.locations.get("shuffle")
        text = pipeline.code(loader.dataset_location) if loader.dataset_location else ""
        shown = f"`{text}`" if 0 < len(text) <= 30 and "\n" not in text else "the training set"
        return self.finding(
            loader.origin,
            f"every epoch reads the rows of {shown} in the same order",
            related=[
                Related(feeding.loop.location, "trains on its batches in each epoch", "loop", feeding.loop.header)
            ],
            help="pass `shuffle=True`",
            facts=told.as_facts() if told else {},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        loader = loop.loader
        if loader is None or loader.batches is None or loader.sampler not in ORDERED | {"RandomSampler"}:
            return Verdict.inconclusive(f"the order of {loop.batches} batches is not known from their loader")
        text = f"a `{loader.sampler}` orders the rows of {loader.batches} batches"
        return (Verdict.confirmed if loader.sampler in ORDERED else Verdict.refuted)(text, sampler=loader.sampler)

    def fix(self, finding: Finding) -> fixes.Fix:
        told = finding.location_in_facts
        if told is not None:
            return fixes.Fix.of("shuffle the rows", fixes.Replace(told, "True"), safe=False)
        return fixes.Fix.of("shuffle the rows", fixes.AddArgument(finding.location, "shuffle", "True"), safe=False)


def _is_told_nothing(loader: Loader) -> bool:
    """Whether neither shuffling nor another order is asked for."""
    shuffle = loader.value("shuffle")
    is_off = isinstance(shuffle, Constant) and shuffle.value is False and not shuffle.is_default
    return (is_missing(shuffle) or is_off) and all(
        is_missing(loader.value(name)) for name in ("sampler", "batch_sampler")
    )


def _is_one_batch(loader: Loader) -> bool:
    """Whether all rows may be in one batch, or batches are made elsewhere: then there is no order among them."""
    size = loader.value("batch_size")
    if is_missing(size):
        return isinstance(size, Constant)
    number = literal(size)
    if not isinstance(number, int):
        return "len(" in loader.text
    rows = loader.dataset.rows if isinstance(loader.dataset, Dataset) else None
    return (rows is not None and rows <= number) or (isinstance(loader.dataset, Instance) and "len(" in loader.text)
