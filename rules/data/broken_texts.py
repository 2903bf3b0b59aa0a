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

## Fix

None: it depends on the source of the texts. Read files with `encoding="utf-8"`, and leave empty rows out.

## References

Python documentation, "Unicode HOWTO": `errors="replace"` writes U+FFFD for what cannot be decoded.
"""

from lintrain.rule import Level, RowsRule


class BrokenTexts(RowsRule):
    level = Level.WARNING
    message = "many texts are empty, or have broken characters"
    help_text = 'leave empty rows out, and read files with the encoding that they have (`encoding="utf-8"`)'
    subject = "train_dataset"
    faults = ("only special tokens", "empty text", "replaced characters", "mangled characters")
    fewest_rows = 3
    smallest_share = 0.01
