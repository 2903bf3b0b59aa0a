"""The head of the model is made for labels of another kind: of tokens in place of texts, or the reverse.

A head for tokens gives scores for every token and needs a label for each; a head for texts gives scores for the whole
row and needs one. With the other kind of labels, the loss gets scores and labels of different numbers and raises a
ValueError at the first batch.

## Bad

    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    rows = tokenized["train"]
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=collator)  # <- head-for-other-labels
    # raises to match target batch_size

## Good

    tagger = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    rows = tokenized["train"]
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=collator)

## When it is fine

The collator makes the labels of the tokens:

    from my_project import TokenLabels

    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(tagger, args, train_dataset=tokenized["train"], data_collator=TokenLabels(tokenizer))

## Fix

None: either the model or the labels may be wrong.

## References

Transformers documentation, `AutoModelForTokenClassification`, `AutoModelForSequenceClassification`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.values.data import Column, Kind
from lintrain.pipeline.values.model import Task
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict

SINGLE = frozenset({Kind.CLASS, Kind.INTEGER, Kind.FLOAT})
REFUSED = ("to match target batch_size", "Target size", "must match the size of tensor")


class HeadForOtherLabels(Rule):
    level = Level.ERROR
    keywords = "ForTokenClassification|ForSequenceClassification"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for given in run_data.given_datasets(pipeline):
            task = given.run.model.task if given.run.model else None
            labels = [rows.label for rows in given.datasets]
            known = [column for column in labels if column is not None]
            is_plain = given.parameter == "train_dataset" and run_data.keeps_labels(given.run)
            if task is None or not is_plain or not known or len(known) < len(labels):
                continue
            if any(rows.may_differ for rows in given.datasets):
                continue
            if all(_is_of_other_kind(task, column) or _tags_words(task, column, given) for column in known):
                yield self._report(given, known[0], task)

    def _report(self, given: run_data.Given, column: Column, task: Task) -> Finding:
        model = given.run.model
        of_tokens = task is Task.TOKEN_CLASSIFICATION
        needs, has = ("each token", "one label") if of_tokens else ("a whole row", "a list of labels")
        made = [Related(model.origin, f"scores {needs}", "model")] if model and model.origin else []
        return self.finding(
            given.argument.location,
            f"the head scores {needs}, but `{column.name}` is {has} per row",
            related=[*made, *run_data.origin_of(given.datasets[0])],
            help=f"use `AutoModelFor{'Sequence' if of_tokens else 'Token'}Classification`, or other labels",
            subject=given.parameter,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        batch, model = evidence.batch(), evidence.model
        labels = batch.tensor("labels") if batch is not None else None
        ids = batch.tensor("input_ids") if batch is not None else None
        if labels is None or ids is None or model is None or evidence.loop is not None:
            return
        are_of_rows, are_of_tokens = len(labels.shape) == 1, labels.shape == ids.shape
        of_tokens = model.task == "TokenClassification" and are_of_rows
        if of_tokens or (model.task == "SequenceClassification" and are_of_tokens):
            needs, has = ("each token", "one label") if of_tokens else ("a whole row", "a list of labels")
            yield self.finding(
                evidence.location,
                f"the head scores {needs}, but the batch has {has} per row",
                help=f"use `AutoModelFor{'Sequence' if of_tokens else 'Token'}Classification`, or other labels",
                subject="train_dataset",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch(finding.subject or "train_dataset")
        rows = batch.rows if batch else 0
        if (stage := evidence.failed_with(*REFUSED)) is not None:
            return Verdict.confirmed(f"the {stage.name} stage failed on a batch of {rows} rows", rows=rows)
        if evidence.passed("forward"):
            return Verdict.refuted(f"the model computed the loss of a batch of {rows} rows", rows=rows)
        return Verdict.inconclusive(evidence.not_reached("forward"))


def _is_of_other_kind(task: Task, column: Column) -> bool:
    if task is Task.TOKEN_CLASSIFICATION:
        return column.kind in SINGLE
    return task is Task.SEQUENCE_CLASSIFICATION and column.kind is Kind.LIST and column.item is Kind.CLASS


def _tags_words(task: Task, column: Column, given: run_data.Given) -> bool:
    """Whether a head of texts gets lists of labels, made of a column that is named for the tags of words."""
    names = [name for rows in given.datasets for made in rows.lineage for name in made.columns or {}]
    is_tagged = any(name.endswith(("_tags", "tags")) for name in names)
    return task is Task.SEQUENCE_CLASSIFICATION and column.kind is Kind.LIST and is_tagged
