"""Many texts are empty, or their characters are broken.

An empty text teaches the model to guess. Characters such as `�` or `Ã©` come from a file that was read with the wrong
encoding: the words around them become tokens that occur nowhere else.

## Bad

    reviews = [f"review number {i}" if i % 3 else "" for i in range(600)]
    written = {"text": reviews, "label": [i % 2 for i in range(600)]}
    empty = Dataset.from_dict(written).map(lambda rows: tokenizer(rows["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=empty, data_collator=collator)  # <- broken-texts

## Good

    reviews = [f"review number {i}" for i in range(600)]
    written = {"text": reviews, "label": [i % 2 for i in range(600)]}
    full = Dataset.from_dict(written).map(lambda rows: tokenizer(rows["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=full, data_collator=collator)

## When it is fine

A few such rows among many (fewer than 1 %) hardly matter: the report of a probe lists them without a finding. Of rows
with several texts only the longest column is judged, because others (the `input` of an instruction) may be empty.

Empty rows of a model that predicts masked tokens have nothing to predict, so that they teach nothing. Many corpora
(WikiText) have an empty line between paragraphs:

    lines = [f"line number {i}" if i % 3 else "" for i in range(600)]
    corpus = Dataset.from_dict({"text": lines}).map(lambda rows: tokenizer(rows["text"]), batched=True)
    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    masking = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    trainer = Trainer(model, args, train_dataset=corpus, data_collator=masking)
    trainer.train()

## Fix

None: it depends on the source of the texts. Read files with `encoding="utf-8"`, and leave empty rows out.

## References

Python documentation, "Unicode HOWTO": `errors="replace"` writes U+FFFD for what cannot be decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Level, RowsRule

if TYPE_CHECKING:
    from lintrain.evidence.run import RowFault

EMPTY: tuple[RowFault, ...] = ("only special tokens", "empty text")


class BrokenTexts(RowsRule):
    level = Level.WARNING
    message = "many texts are empty, or have broken characters"
    help_text = 'leave empty rows out, and read files with the encoding that they have (`encoding="utf-8"`)'
    subject = "train_dataset"
    faults = (*EMPTY, "replaced characters", "mangled characters")
    fewest_rows = 3
    smallest_share = 0.01

    def faults_in(self, evidence: Evidence) -> tuple[RowFault, ...]:
        """Empty rows are left out where the masked tokens of each row are predicted: they have none."""
        is_masked = evidence.model is not None and evidence.model.task == "MaskedLM"
        return tuple(fault for fault in self.faults if not (is_masked and fault in EMPTY))
