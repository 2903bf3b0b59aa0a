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

Names in another language, or that do not begin alike, are not compared:

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
        same = {number: at for number, name in enumerate(given) if (at := _number_of(name, own, given)) is not None}
        if len(same) < 2:
            return Verdict.inconclusive(f"the {len(own)} names of the model are not those of the data set's classes")
        moved = next((number for number, at in same.items() if number != at), None)
        if moved is None:
            return Verdict.refuted(f"all {len(same)} names that both have are in the order of the data set")
        other = f"and `{model.label_names[moved]}` in the model" if moved < len(own) else "and missing in the model"
        return Verdict.confirmed(f"label {moved} is `{labels.names[moved]}` in the data set {other}", label=moved)


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


SHORTEST = 3
"""Letters of a name that another may begin with: `neg` is `negative`."""


def _number_of(name: str, own: list[str], given: list[str]) -> int | None:
    """The number of the model's name that means the same and no other one; None if there is none."""
    found = [number for number, other in enumerate(own) if _are_same(name, other)]
    if len(found) != 1:
        return None
    return found[0] if sum(_are_same(each, own[found[0]]) for each in given) == 1 else None


def _are_same(name: str, other: str) -> bool:
    shorter, longer = sorted((name, other), key=len)
    return name == other or (len(shorter) >= SHORTEST and longer.startswith(shorter))
