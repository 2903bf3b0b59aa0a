"""Rows with the same texts carry different labels.

No model can answer both ways, so that the loss has a floor, and what is learned of these rows is noise. It comes from
joined sources that disagree, from labels that were shifted against their texts, or from a text column that lacks what
the label depends on.

## Bad

    twice = {"text": [f"review number {i % 600}" for i in range(1200)], "label": [i // 600 for i in range(1200)]}
    noisy = Dataset.from_dict(twice).map(lambda rows: tokenizer(rows["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=noisy, data_collator=collator)  # <- conflicting-labels

## Good

    once = {"text": [f"review number {i}" for i in range(1200)], "label": [i // 600 for i in range(1200)]}
    clean = Dataset.from_dict(once).map(lambda rows: tokenizer(rows["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=clean, data_collator=collator)

## When it is fine

Several annotators per text whose votes are meant to be averaged; labels that are probabilities. Other models than
classifiers of whole rows are left alone, for their targets lie in the texts. Texts are compared as they are before they
are cut to a length.

## Fix

None: which of the labels is right, only someone who reads the rows can tell.

## References

Northcutt, Athalye, Mueller: Pervasive Label Errors in Test Sets Destabilize Machine Learning Benchmarks (2021).
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

LARGEST_SHARE = 0.01
FEWEST_ROWS = 1_000
WHOLE_ROWS = {"SequenceClassification", "ImageClassification", "AudioClassification"}


class ConflictingLabels(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.model or evidence.model.task not in WHOLE_ROWS:
            return Verdict.inconclusive("the model is no classifier of whole rows")
        conflicts = evidence.conflicts
        if conflicts is None:
            return Verdict.inconclusive(
                "no dataset with texts and one column of classes was mapped: 0 rows were compared"
            )
        share = conflicts.conflicting / conflicts.compared
        texts = ", ".join(f"`{name}`" for name in conflicts.inputs)
        said = f"{conflicts.conflicting} of {conflicts.compared} rows share {texts} with a row of another label"
        if share > LARGEST_SHARE:
            return Verdict.confirmed(f"{said} ({share:.1%})", share=share)
        if conflicts.conflicting == 0 and conflicts.compared >= FEWEST_ROWS:
            return Verdict.refuted(said, share=share)
        return Verdict.inconclusive(f"{said}: too few to tell", share=share)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "training rows with the same texts carry different labels",
            help="look at some of them: keep one answer, or give the model the column that the label depends on",
            subject="train_dataset",
        )
        yield from self.if_confirmed(finding, evidence)
