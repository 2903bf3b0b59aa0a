"""Rows with the same text have different labels.

No model can predict both labels, so the loss cannot fall below a certain value, and these rows add noise. Reasons are
merged sources that disagree, labels that are shifted against their texts, or a text column without the information that
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

Several annotators per text, whose votes the model should average, and labels that are probabilities. The rule applies
only to classifiers of rows and of words; other models have their targets in the text. Texts are compared before
truncation, and without their capital letters if the tokenizer loses these (`Apple` and `apple`); if the first batches
hold equal token ids with different labels in a quarter of their rows, that is reported too: then the model reads less
than the data set has.

## Fix

None: only a person who reads the rows can decide which label is correct.

## References

Northcutt, Athalye, Mueller: Pervasive Label Errors in Test Sets Destabilize Machine Learning Benchmarks (2021).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.data import LabelConflicts

LARGEST_SHARE = 0.01
FEWEST_ROWS = 1_000
PLAIN_SHARE, FEWEST_IN_BATCHES = 0.25, 6
"""The share and number of rows in the first batches that are alike and have different labels."""
CLASSIFIES = {"TokenClassification", "SequenceClassification", "ImageClassification", "AudioClassification"}


class ConflictingLabels(EvidenceRule):
    level = Level.WARNING
    message = "training rows with the same text have different labels"
    help_text = "inspect some of them: keep one label, or give the model the column that the label depends on"
    subject = "train_dataset"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not _classifies(evidence):
            return Verdict.inconclusive("the model does not classify rows or words")
        split = evidence.split("train_dataset")
        repeats = split.sweep.repeats if split and split.sweep and split.sweep.numbered else None
        if repeats is not None and repeats.conflicting > LARGEST_SHARE * repeats.compared:
            share = repeats.conflicting / repeats.compared
            first, second = repeats.first
            text = f"{repeats.conflicting} of {repeats.compared} rows are equal to a row with another label, as the"
            return Verdict.confirmed(f"{text} model reads them ({share:.1%}; rows {first} and {second})", share=share)
        batch, conflicts = evidence.batch(), evidence.conflicts
        rows = batch.collated if batch is not None else None
        if rows is not None and rows.conflicting >= max(FEWEST_IN_BATCHES, PLAIN_SHARE * rows.rows):
            alike = f"{rows.conflicting} of {rows.rows} rows in the first batches read as a row with another label"
            return Verdict.confirmed(alike, share=rows.conflicting / rows.rows)
        if conflicts is not None and (lost := _lost_case(evidence, conflicts)) > LARGEST_SHARE * conflicts.compared:
            return Verdict.confirmed(
                f"{lost} of {conflicts.compared} rows differ in capital letters only from a row of another label, and"
                " the tokenizer loses these",
                share=lost / conflicts.compared,
            )
        if conflicts is None:
            return Verdict.inconclusive(
                "no rows were compared: no dataset with texts and a single label column was mapped"
            )
        share = conflicts.conflicting / conflicts.compared
        texts = ", ".join(f"`{name}`" for name in conflicts.inputs)
        text = f"{conflicts.conflicting} of {conflicts.compared} rows have the same {texts} as a row with another label"
        if share > LARGEST_SHARE:
            return Verdict.confirmed(f"{text} ({share:.1%})", share=share)
        if conflicts.conflicting == 0 and conflicts.compared >= FEWEST_ROWS:
            return Verdict.refuted(text, share=share)
        return Verdict.inconclusive(f"{text}, which is too few to decide", share=share)


def _classifies(evidence: Evidence) -> bool:
    """Whether a class is predicted for each row, or for each of its words."""
    if evidence.model is not None and evidence.model.task in CLASSIFIES:
        return True
    if _predicts_tokens(evidence):
        return False
    losses = evidence.loop.losses_of("cross_entropy") if evidence.loop is not None else ()
    return any(len(loss.input_shape) == 2 and loss.target_dtype == "int64" for loss in losses)


def _lost_case(evidence: Evidence, conflicts: LabelConflicts) -> int:
    """The rows that only capital letters set apart from one of another label, if every encoding loses these."""
    with_capitals = [each for each in evidence.encodings if each.with_capitals]
    loses = bool(with_capitals) and all(each.lost_capitals == each.with_capitals for each in with_capitals)
    return conflicts.in_lower_case - conflicts.conflicting if loses else 0


def _predicts_tokens(evidence: Evidence) -> bool:
    """Whether the classes may be the tokens that follow a row: the same start has several continuations."""
    split = evidence.split("train_dataset")
    labels = split.labels if split else None
    ids = next((column for column in split.columns if column is not labels), None) if split else None
    if (
        labels is None
        or ids is None
        or labels.maximum is None
        or ids.maximum is None
        or not ids.dtype.startswith("int")
    ):
        return False
    return 2 * labels.maximum >= ids.maximum
