"""The class numbers of the training rows are floats.

A classifier of one class per row needs whole numbers. With floats, transformers takes the task for one with several
labels at once and compares each label with all outputs, or cross-entropy refuses the type. The first step raises an
error that names neither.

## Bad

    rows = Dataset.from_dict({"text": ["good", "bad", "so so"] * 8, "label": [0.0, 1.0, 2.0] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)  # <- float-class-labels
    # raises must be the same as input size

## Good

    rows = Dataset.from_dict({"text": ["good", "bad", "so so"] * 8, "label": [0, 1, 2] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

## When it is fine

Scores for a head with one output:

    rows = Dataset.from_dict({"text": ["good", "bad", "so so"] * 8, "label": [0.9, 0.1, 0.5] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=1)
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)

## Fix

None: the numbers are made in several ways, and some of them are scores.

## References

`ForSequenceClassificationLoss` of transformers 5.23, `loss/loss_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.values.data import Column, Kind
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import ABSENT, literal, number_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict


class FloatClassLabels(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for given in run_data.given_datasets(pipeline):
            run, model = given.run, given.run.model
            if given.parameter != "train_dataset" or model is None or not run_data.keeps_labels(run):
                continue
            if all(_is_float(dataset.label, model) for dataset in given.datasets):
                yield self.finding(
                    given.argument.location,
                    f"the labels of {given.text} are floats, but the model needs class numbers",
                    related=[Related(model.origin, "expects one class per row")] if model.origin else [],
                    help="make them whole numbers: `int`, or `dtype=torch.long`",
                    subject="labels",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        labels = batch.tensor("labels") if batch is not None else None
        if labels is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        text = f"the labels of one batch are {labels.dtype} of shape {list(labels.shape)}"
        if len(labels.shape) == 1 and "float" in labels.dtype and not evidence.passed("forward"):
            return Verdict.confirmed(text, dimensions=len(labels.shape))
        return Verdict.refuted(text, dimensions=len(labels.shape))


def _is_float(label: Column | None, model: Model) -> bool:
    """Whether labels are single floats, or floats for a head that says itself that it wants one class."""
    if label is None or model.task is not Task.SEQUENCE_CLASSIFICATION:
        return False
    problem = literal(model.arguments.get("problem_type", ABSENT))
    if problem == "single_label_classification":
        return Kind.FLOAT in {label.kind, label.item if label.kind is Kind.UNKNOWN else None}
    is_open = "problem_type" in model.arguments or "config" in model.arguments
    return not is_open and (number_of(model.num_labels) or 0) > 1 and label.kind is Kind.FLOAT
