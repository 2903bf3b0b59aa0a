"""The training rows are in the same order in every epoch.

A loader without `shuffle=True` reads the rows from the first to the last in every epoch. Rows that are adjacent in the
file are always in the same batch; if the rows are sorted, a batch contains a single class, and the model oscillates.

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

Sorted by class:

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 96

        def __getitem__(self, index):
            return torch.full((8,), index / 96), index // 32

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

Sorted by class:

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 96

        def __getitem__(self, index):
            return torch.full((8,), index / 96), index // 32

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

Rows that are random or were shuffled before:

    rows = columns["train"].shuffle(seed=42)
    loader = DataLoader(rows, batch_size=16, collate_fn=collator)
    model.train()
    for epoch in range(2):
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

and

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

A sampler may determine the order:

    def fit(rows, sampler):
        loader = DataLoader(rows, batch_size=16, sampler=sampler)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x), y).backward()
                optimizer.step()

A single epoch, in the given order:

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

Asks first: each run then reads the rows in another order, and needs a seed to be reproducible.

## References

PyTorch documentation, `torch.utils.data.DataLoader`: without `shuffle` or a sampler it uses a `SequentialSampler`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import loaders, row_order, training_loops
from lintrain.pipeline.events import Loop
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Instance,
    LibraryObject,
    Unknown,
    is_missing,
    literal,
    number_of,
    options_of,
)
from lintrain.pipeline.values.training import LightningFit, LightningTrainer
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

if TYPE_CHECKING:
    from lintrain.evidence.run import ColumnEvidence

DISTRIBUTED = "torch.utils.data.DistributedSampler"

ORDERED = frozenset({"SequentialSampler"})
"""Samplers that return the rows in the same order in every epoch."""


LONGEST_NAME = 22


@dataclass(frozen=True, slots=True)
class Claim:
    """The value of `shuffle=False`, for the fix to replace; None if the argument is missing."""

    shuffle: Location | None = None


class UnshuffledTrainingData(Rule[Claim]):
    level = Level.WARNING
    keywords = "DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen: set[Loader] = set()
        for feeding in loaders.feedings(pipeline) if training_loops.trains_by_hand(pipeline) else ():
            loader = feeding.loader
            if loader not in seen and feeding.is_repeated and self._keeps_order(pipeline, loader):
                seen.add(loader)
                yield self._report(pipeline, loader, feeding.loop)
        for fit in pipeline.lightning_fits:
            for given in options_of(fit.loader) if not _runs_one_epoch(fit) else ():
                if isinstance(given, Loader) and given not in seen and self._keeps_order(pipeline, given):
                    seen.add(given)
                    yield self._report(pipeline, given, None)
        for loader in pipeline.loaders:
            if loader not in seen and loaders.is_of_train_method(pipeline, loader) and not pipeline.lightning_fits:
                seen.add(loader)
                if self._keeps_order(pipeline, loader):
                    yield self._report(pipeline, loader, None)
        # A piece of a script often ends with its loaders: there the names show which one trains.
        for loader in pipeline.loaders if pipeline.source.is_partial else ():
            is_own = loader.origin is not None and pipeline.source_of(loader.origin) is pipeline.source
            if loader not in seen and is_own and loaders.is_named_for_training(pipeline, loader):
                seen.add(loader)
                if self._keeps_order(pipeline, loader):
                    yield self._report(pipeline, loader, None)

    def _keeps_order(self, pipeline: Pipeline, loader: Loader) -> bool:
        location = loader.origin
        if location is None:
            return False
        if not _has_default_order(loader) or _is_one_batch(loader):
            return False
        is_by_index = loaders.is_map_style(loader.dataset) or isinstance(loader.dataset, Unknown)
        if not is_by_index or not row_order.keeps_source_order(pipeline, loader):
            return False
        return not loaders.is_deliberate(pipeline, location) and not _is_meant(pipeline, location)

    def _report(self, pipeline: Pipeline, loader: Loader, loop: Loop | None) -> Finding[Claim]:
        assert loader.origin is not None
        text = pipeline.code(loader.dataset_location) if loader.dataset_location else ""
        shown = f"`{text}`" if 0 < len(text) <= LONGEST_NAME and "\n" not in text else "the training set"
        alone = "with one process, " if _shuffles_only_distributed(loader) else ""
        return self.finding(
            loader.origin,
            f"{alone}every epoch reads the rows of {shown} in the same order",
            related=[Related(loop.location, "trains on its batches in each epoch", "loop", loop.header)]
            if loop
            else [],
            help="pass `shuffle=sampler is None`" if alone else "pass `shuffle=True`",
            level=Level.NOTE if isinstance(loader.dataset, Unknown) else self.level,
            claim=None if alone else Claim(loader.locations.get("shuffle")),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loader, labels = evidence.loop.loader if evidence.loop else None, _labels(evidence)
        if loader is not None and loader.sampler in ORDERED and (loader.batches or 0) > 1 and _are_sorted(labels):
            yield self.finding(
                evidence.data_location,
                "the rows are sorted by class, and every epoch reads them in this order",
                help="pass `shuffle=True`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        loader = loop.loader
        if loader is None or loader.batches is None or loader.sampler not in ORDERED | {"RandomSampler"}:
            return Verdict.inconclusive(f"the sampler of the {loop.batches} batches is not known")
        text = f"a `{loader.sampler}` determines the order of the rows of {loader.batches} batches"
        labels = _labels(evidence)
        if labels is not None and loader.sampler in ORDERED and _are_sorted(labels):
            text += f", and the {len(labels.counts)} classes come one after the other"
        return (Verdict.confirmed if loader.sampler in ORDERED else Verdict.refuted)(text, sampler=loader.sampler)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None and "one process" in finding.message:
            return None  # which name says that there is no sampler is not certain
        if claim is not None and claim.shuffle is not None:
            return fixes.Fix.of("shuffle the rows", fixes.Replace(claim.shuffle, "True"), safe=False)
        return fixes.Fix.of("shuffle the rows", fixes.AddArgument(finding.location, "shuffle", "True"), safe=False)


ORDER_IS_MEANT = lazy_pattern(
    r"(?i)#.*\b(?:sequential|in order|keep\w* (?:the )?order|(?:no|not|never|without|n't) \w*\s?shuffl)"
)


def _is_meant(pipeline: Pipeline, location: Location) -> bool:
    """Whether a comment on the call gives a reason for its order."""
    lines = pipeline.source_of(location).lines[location.line - 1 : location.end_line]
    return any(ORDER_IS_MEANT.search(line) for line in lines)


FEWEST = 32


def _labels(evidence: Evidence) -> ColumnEvidence | None:
    split = evidence.split("train_dataset")
    return split.labels if split is not None else None


def _are_sorted(labels: ColumnEvidence | None) -> bool:
    """Whether the rows of each class are side by side, and enough of them that a batch has one class."""
    counts = [rows for _, rows in labels.counts] if labels is not None else []
    is_enough = len(counts) > 1 and sum(counts) >= FEWEST and min(counts) > len(counts)
    return labels is not None and is_enough and labels.runs == len(counts)


STOPS_EARLY = frozenset({"**", "max_steps", "fast_dev_run", "overfit_batches", "limit_train_batches"})
"""Arguments of a Trainer of Lightning by which it may train less than an epoch, or some rows on purpose."""


def _runs_one_epoch(fit: LightningFit) -> bool:
    """Whether a Trainer of Lightning may run less than two epochs: then no order is repeated."""
    given = fit.trainer.arguments if isinstance(fit.trainer, LightningTrainer) else {"**": UNKNOWN}
    epochs = number_of(given.get("max_epochs", UNKNOWN))
    return not STOPS_EARLY.isdisjoint(given) or (epochs is not None and epochs <= 1)


def _has_default_order(loader: Loader) -> bool:
    """Whether a loader certainly neither shuffles nor has a sampler."""
    shuffle = loader.value("shuffle")
    is_off = isinstance(shuffle, Constant) and shuffle.value is False and not shuffle.may_differ
    sampler = loader.value("sampler")
    is_sequential = isinstance(sampler, LibraryObject) and sampler.path.endswith(".SequentialSampler")
    has_none = is_missing(sampler) and is_missing(loader.value("batch_sampler"))
    return (is_missing(shuffle) or is_off) and (has_none or is_sequential or _shuffles_only_distributed(loader))


def _shuffles_only_distributed(loader: Loader) -> bool:
    """Whether `shuffle=False` is meant for a distributed sampler, and one process has no sampler at all."""
    options, shuffle = options_of(loader.value("sampler")), loader.value("shuffle")
    is_written = isinstance(shuffle, Constant) and shuffle.value is False
    rest = [each for each in options if not is_missing(each)]
    is_distributed = all(isinstance(each, LibraryObject) and each.path == DISTRIBUTED for each in rest)
    has_none = len(rest) < len(options) and is_missing(loader.value("batch_sampler"))
    return is_written and bool(rest) and has_none and is_distributed


def _is_one_batch(loader: Loader) -> bool:
    """Whether all rows may be in one batch, or the loader creates no batches: then the order does not matter."""
    size = loader.value("batch_size")
    if is_missing(size):
        return isinstance(size, Constant)
    number = literal(size)
    if not isinstance(number, int):
        return "len(" in loader.text
    rows = loader.dataset.rows if isinstance(loader.dataset, Dataset) else None
    return (rows is not None and rows <= number) or (isinstance(loader.dataset, Instance) and "len(" in loader.text)
