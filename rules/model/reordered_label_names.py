"""The model numbers its classes in another order than the data set.

`id2label` of a model only names its outputs. If the names are in another order than the classes of the data set, the
model learns well, but every prediction is shown with the wrong name: in a pipeline, on the hub, in an error analysis.

## Bad

    names = ["contradiction", "neutral", "entailment"]
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, id2label=dict(enumerate(names)))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- reordered-label-names

## Good

    names = raw["train"].features["label"].names
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, id2label=dict(enumerate(names)))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Names in another spelling or language are not compared:

    names = ["Widerspruch", "neutral", "Folgerung"]
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, id2label=dict(enumerate(names)))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: the labels may be numbered by the model's order in another part of the project.

## References

Transformers documentation, `PretrainedConfig`, parameters `id2label` and `label2id`.
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict


class ReorderedLabelNames(EvidenceRule):
    level = Level.WARNING
    message = "`id2label` names the classes in another order than the data set"
    help_text = 'take the names from the data set: `dataset.features["label"].names`'
    subject = "model"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        split, model = evidence.split("train_dataset"), evidence.model
        labels = split.labels if split is not None else None
        if labels is None or model is None:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        own, given = [_plain(name) for name in model.label_names], [_plain(name) for name in labels.names]
        if sorted(own) != sorted(given) or len(set(own)) < 2:
            return Verdict.inconclusive(f"the {len(own)} names of the model are not those of the data set's classes")
        at = next((number for number, name in enumerate(given) if own[number] != name), None)
        if at is None:
            return Verdict.refuted(f"all {len(own)} names are in the order of the data set")
        text = f"label {at} is `{labels.names[at]}` in the data set and `{model.label_names[at]}` in the model"
        return Verdict.confirmed(text, label=at)


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")
