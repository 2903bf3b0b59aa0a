"""Code reads, renames or removes a column that the data set does not have.

The columns of a data set differ from one to the next: `imdb` has `text` and `label`, `sst2` has `sentence` and `label`.
A function for `map` that was written for another one raises `KeyError` at its first row, and so does code behind a
`rename_column` or `remove_columns` that reads the old name.

## Bad

    def tokenize(rows):
        return tokenizer(rows["sentence"], truncation=True)  # <- missing-column

    encoded = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=encoded["train"], data_collator=collator)

## Good

    def tokenize(rows):
        return tokenizer(rows["premise"], rows["hypothesis"], truncation=True)

    encoded = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=encoded["train"], data_collator=collator)

## When it is fine

The code looks whether there is such a column, or can do without it:

    def tokenize(rows):
        name = "sentence" if "sentence" in rows else "premise"
        if "sentence" in rows:
            return tokenizer(rows["sentence"], truncation=True)
        return tokenizer(rows[name], rows.get("sentence2", rows["hypothesis"]), truncation=True)

    encoded = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=encoded["train"], data_collator=collator)

## Fix

None: which column was meant is not known.

## References

Datasets documentation, "Process"; Hugging Face course, chapter 3, "Processing the data".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline import blocks
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Dataset
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
    one_per_location,
)

MAKES = lazy_pattern(
    r"load_dataset|load_from_disk|from_(?:dict|list|generator|pandas|text|csv|json|parquet|sql|polars|file)\b|TextDataset"
)
"""What makes a data set, whose columns may be known."""

MOST_SHOWN = 6
"""Columns that a message lists."""


class MissingColumn(Rule):
    level = Level.ERROR
    keywords = "dataset & map|columns|rename|filter"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(MAKES)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        misuses = (each for each in pipeline.misuses if each.use == "missing column")
        found = (each for each in misuses if not blocks.expects_error(pipeline.source_of(each.location), each.location))
        yield from one_per_location(self._report(each, each.value) for each in found if isinstance(each.value, Dataset))

    def _report(self, misuse: Misuse, dataset: Dataset) -> Finding:
        names = [*(dataset.columns or {})]
        shown = ", ".join(f"`{name}`" for name in names[:MOST_SHOWN])
        rest = f" and {len(names) - MOST_SHOWN} others" if len(names) > MOST_SHOWN else ""
        last = dataset.steps[-1:]
        named = dataset.hub_name if len(dataset.steps) == 1 else None
        return self.finding(
            misuse.location,
            f"{f'`{named}`' if named else 'the data set'} has no column `{misuse.text}`",
            related=[Related(step.location, f"has {shown}{rest}", "columns", step.text) for step in last],
            help=f"its columns are {shown}{rest}",
            subject=misuse.text,
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        column = finding.subject or ""
        stage = evidence.failed_with(f"'{column}'", f'"{column}"')
        if stage is not None and stage.failure is not None and stage.failure.type in {"KeyError", "ValueError"}:
            return Verdict.confirmed(f"{stage.failure.type} in the {stage.name} stage: there is no column `{column}`")
        batch = evidence.batch("train_dataset")
        if batch is not None and evidence.passed("forward"):
            return Verdict.refuted(f"a batch of {batch.rows} rows was made, and passed through the model")
        return Verdict.inconclusive(evidence.not_reached("batch"))
