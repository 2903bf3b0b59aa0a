"""Each row keeps the extra dimension that `return_tensors` adds.

With `return_tensors` a tokenizer returns the shape [1, tokens] for a single text. Such rows become batches of shape
[rows, 1, tokens], and the model raises an error about their shape.

## Bad

    def tokenize_row(row):
        text = row["premise"]
        return tokenizer(  # <- extra-batch-dimension
            text, truncation=True, padding="max_length", max_length=32, return_tensors="pt"
        )

    rows = raw.map(tokenize_row)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=default_data_collator)
    # raises IndexError: index 1 is out of bounds for dimension 1 with size 1

In a custom dataset, a collator that pads raises an error for such rows:

    class Premises(torch.utils.data.Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            row = self.rows[index]
            encoded = tokenizer(row["premise"], truncation=True, return_tensors="pt")  # <- extra-batch-dimension
            return {"input_ids": encoded["input_ids"], "labels": row["label"]}

    trainer = Trainer(model, args, train_dataset=Premises(raw["train"]), data_collator=collator)
    # raises ValueError: Unable to create tensor

## Good

    def tokenize_row(row):
        text = row["premise"]
        return tokenizer(text, truncation=True, padding="max_length", max_length=32)

    rows = raw.map(tokenize_row)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=default_data_collator)

In the custom dataset:

    class Premises(torch.utils.data.Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            row = self.rows[index]
            encoded = tokenizer(row["premise"], truncation=True)
            return {"input_ids": encoded["input_ids"], "labels": row["label"]}

    trainer = Trainer(model, args, train_dataset=Premises(raw["train"]), data_collator=collator)

## When it is fine

The extra dimension is removed:

    class Premises(torch.utils.data.Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            row = self.rows[index]
            encoded = tokenizer(
                row["premise"], truncation=True, padding="max_length", max_length=32, return_tensors="pt"
            )
            return {name: values.squeeze(0) for name, values in encoded.items()} | {"labels": row["label"]}

    trainer = Trainer(model, args, train_dataset=Premises(raw["train"]), data_collator=default_data_collator)

The tokenizer gets a batch of texts:

    def tokenize_rows(batch):
        return tokenizer(batch["premise"], truncation=True, padding=True, return_tensors="pt")

    rows = raw.map(tokenize_rows, batched=True, batch_size=None)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)

A custom collator concatenates such rows:

    def join_rows(rows):
        return {
            "input_ids": torch.cat([torch.tensor(row["input_ids"]) for row in rows]),
            "labels": torch.tensor([row["label"] for row in rows]),
        }

    def tokenize_row(row):
        return tokenizer(row["premise"], truncation=True, padding="max_length", max_length=32, return_tensors="pt")

    rows = raw.map(tokenize_row)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=join_rows)

## Fix

Safe if a collator pads: it creates the tensors. Asks first elsewhere, because other code may expect tensors.

## References

transformers#17052, transformers#28206.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import row_axes, run_data, token_feeds
from lintrain.pipeline.values.data import Collator
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

SHAPES = (
    "too many values to unpack (expected 2",
    "Unable to create tensor",
    "is out of bounds for dimension 1 with size 1",
)
"""Error messages about the shape of such batches."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the collator pads, and so creates the tensors."""

    pads: bool


class ExtraBatchDimension(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            ids, encoding = feed.columns.get("input_ids"), feed.encoding
            if ids is None or not ids.is_stacked or encoding is None or encoding.origin is None:
                continue
            if encoding.origin in reported or not _reaches_the_model(pipeline, feed):
                continue
            reported.add(encoding.origin)
            yield self.finding(
                encoding.origin,
                "`return_tensors` adds a dimension of size 1 to every row",
                related=[Related(feed.location, "rows are collated into batches here", "batched")],
                help="remove `return_tensors`: the collator creates the tensors of a batch",
                claim=Claim(isinstance(feed.collator, Collator) and feed.collator.pads is True),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        batch = evidence.batch()
        ids = batch.tensor("input_ids") if batch is not None else None
        is_collated = ids is not None and len(ids.shape) == 3 and ids.shape[1] == 1
        split = evidence.split("train_dataset")
        column = split.column("input_ids") if split is not None else None
        # A list of one list: rows of one token would be no training data.
        is_nested = evidence.failed_with(*SHAPES) is not None and column is not None and column.lengths[-1:] == (1,)
        if (is_collated or is_nested) and not evidence.passed("forward"):
            yield self.finding(
                evidence.location_of("encoding"),
                "each row keeps the extra dimension that `return_tensors` adds",
                help="remove `return_tensors`: the collator makes the tensors",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        ids = batch.tensor("input_ids") if batch else None
        failed = evidence.failed_with(*SHAPES)
        if ids is not None and len(ids.shape) == 3 and ids.shape[1] == 1:
            return Verdict.confirmed(f"`input_ids` of the batch have shape {list(ids.shape)}")
        if failed is not None and ids is None:
            return Verdict.confirmed(f"rows of shape [1, tokens] cannot be collated: the {failed.name} stage failed")
        if ids is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        return Verdict.refuted(f"`input_ids` of the batch have shape {list(ids.shape)}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix:
        pads = finding.claim is not None and finding.claim.pads
        return fixes.Fix.of(
            "remove `return_tensors`", fixes.RemoveArgument(finding.location, "return_tensors"), safe=pads
        )


def _reaches_the_model(pipeline: Pipeline, feed: token_feeds.TokenFeed) -> bool:
    """Whether the rows certainly reach a library's model with their shape unchanged."""
    if not feed.has_library_collator:
        return False
    if feed.run is not None:
        return not run_data.has_own_model(feed.run) and not feed.run.overrides & {"compute_loss", "training_step"}
    is_known = bool(pipeline.models) and all(model.path.startswith("transformers.") for model in pipeline.models)
    return is_known and not row_axes.may_be_removed(pipeline)
