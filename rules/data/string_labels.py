"""The labels of a classifier are strings.

A model needs integer class labels for its loss. If the label column contains class names instead, the collator cannot
convert them to a tensor, and the first batch raises an error about nesting that does not mention strings.

## Bad

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "label": ["pos", "neg"] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- string-labels
    # raises ValueError: Unable to create tensor

Without a tokenizer for the collator, the error is different:

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "class": ["pos", "neg"] * 8})
    pad = {"padding": "max_length", "max_length": 8, "truncation": True}
    rows = rows.map(lambda batch: tokenizer(batch["text"], **pad), batched=True)
    rows = rows.rename_column("class", "labels")
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows)  # <- string-labels

## Good

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "label": ["pos", "neg"] * 8})
    rows = rows.class_encode_column("label")
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

and

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "class": ["pos", "neg"] * 8})
    pad = {"padding": "max_length", "max_length": 8, "truncation": True}
    rows = rows.map(lambda batch: tokenizer(batch["text"], **pad), batched=True)
    rows = rows.rename_column("class", "labels")
    rows = rows.class_encode_column("labels")
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows)

## When it is fine

A `map` may convert the names to numbers:

    numbers = {"pos": 1, "neg": 0}

    def encode(row):
        return {**tokenizer(row["text"]), "label": numbers[row["label"]]}

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "label": ["pos", "neg"] * 8}).map(encode)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

A string column with another name is not passed to the model:

    rows = Dataset.from_dict({"text": ["good", "bad"] * 8, "label_name": ["pos", "neg"] * 8, "label": [1, 0] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

## Fix

Asks first: the classes are numbered alphabetically, and existing result files may use other numbers.

## References

transformers#2869; datasets documentation, `Dataset.class_encode_column`. The error is that of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.values.data import Column, Dataset, Kind
from lintrain.pipeline.values.model import Task
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

LABELS = ("label", "labels", "label_ids")


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that encodes the classes as numbers; None without a fix."""

    statement: str | None = None


class StringLabels(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[object] = set()
        for given in run_data.given_datasets(pipeline):
            columns = [_text_labels(dataset) for dataset in given.datasets]
            found = columns[0]
            if found is None or not all(columns) or not _classifies(given) or given.run in reported:
                continue
            reported.add(given.run)  # the evaluation set has the same columns: one cause, one finding
            yield self._report(pipeline, given, found)

    def _report(self, pipeline: Pipeline, given: run_data.Given, column: Column) -> Finding[Claim]:
        source = _first_with(given.datasets[0], column.name)
        step = source.steps[-1]
        return self.finding(
            given.argument.location,
            f"the column `{column.name}` of {given.text} is text, but the model needs integers",
            related=[Related(step.location, f"`{column.name}` is text here", "origin", step.text)],
            help=f'encode the classes before splitting: `.class_encode_column("{column.name}")`',
            subject=given.parameter,
            claim=Claim(_encoding(pipeline, source, column.name)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        split, model = evidence.split("train_dataset"), evidence.model
        if split is None or model is None or not model.classifies or evidence.passed("forward"):
            return  # a collator may have made numbers of them
        if any((column := split.column(name)) is not None and column.kind == "text" for name in LABELS):
            yield self.finding(
                evidence.location,
                "the labels of the training rows are text, but the model needs integers",
                help='encode the classes: `.class_encode_column("label")`',
                subject="train_dataset",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        split = evidence.split(finding.subject or "train_dataset")
        if split is None or not split.columns:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        kinds = {name: column.kind for name in LABELS if (column := split.column(name)) is not None}
        texts = [name for name, kind in kinds.items() if kind == "text"]
        if texts:
            return Verdict.confirmed(
                f"`{texts[0]}` is text in all {split.rows} rows of {split.argument}", rows=split.rows
            )
        if kinds:
            columns = ", ".join(f"`{name}` is {kind}" for name, kind in kinds.items())
            return Verdict.refuted(f"{columns} in {split.rows} rows of {split.argument}")
        return Verdict.inconclusive(f"none of the {len(split.columns)} columns is a label")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.statement is None:
            return None
        edit = fixes.InsertAfter(finding.with_role("origin")[0].location, claim.statement)
        return fixes.Fix.of("encode the classes as integers", edit, safe=False)


def _classifies(given: run_data.Given) -> bool:
    """Whether the rows are passed to a library's classifier by a library's collator."""
    model = given.run.model
    return model is not None and model.task is Task.SEQUENCE_CLASSIFICATION and run_data.collates_plainly(given.run)


def _text_labels(dataset: Dataset) -> Column | None:
    """The label column of tokenized rows, if it is certainly text."""
    if dataset.may_differ or not dataset.is_tokenized:
        return None
    return next((column for name in LABELS if (column := _text_in(dataset, name)) is not None), None)


def _text_in(dataset: Dataset, name: str) -> Column | None:
    column = (dataset.columns or {}).get(name)
    return column if column is not None and column.kind is Kind.TEXT else None


def _first_with(dataset: Dataset, name: str) -> Dataset:
    """The earliest data set of the lineage in which the column is text."""
    return [made for made in dataset.lineage if _text_in(made, name) is not None][-1]


def _encoding(pipeline: Pipeline, source: Dataset, column: str) -> str | None:
    """The statement that encodes the classes as integers, if the data set has a single name."""
    names = {binding.name for binding in pipeline.names_of(source)}
    if len(names) != 1:
        return None
    name = names.pop()
    return f'{name} = {name}.class_encode_column("{column}")'
