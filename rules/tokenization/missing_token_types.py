"""Rows of two texts have the same token type in both.

Models like BERT were trained with type 0 for the first text and type 1 for the second. If all types are 0, because a
collator makes new ones or the texts were joined before they were encoded, the model cannot use what it learned about
pairs. Training works, and ends with a lower score.

## Bad

    bert_tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    bert = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    rows = raw.map(lambda row: bert_tokenizer(f"{row['premise']} [SEP] {row['hypothesis']}"))
    bert_collator = DataCollatorWithPadding(bert_tokenizer)
    trainer = Trainer(bert, args, train_dataset=rows["train"], data_collator=bert_collator)  # <- missing-token-types
    trainer.train()

## Good

    bert_tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    bert = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    rows = raw.map(lambda rows: bert_tokenizer(rows["premise"], rows["hypothesis"]), batched=True)
    bert_collator = DataCollatorWithPadding(bert_tokenizer)
    trainer = Trainer(bert, args, train_dataset=rows["train"], data_collator=bert_collator)
    trainer.train()

## When it is fine

Models without types, or with one, as DistilBERT, RoBERTa and T5 have; rows of one text, and of three or more.

## Fix

None: a pair is encoded by `tokenizer(first, second)`, which the script may do elsewhere.

## References

Transformers documentation, glossary, "Token Type IDs".
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

MOST = 0.9
FEWEST_PAIRS = 4


class MissingTokenTypes(EvidenceRule):
    level = Level.WARNING
    message = "both texts of a pair have token type 0"
    help_text = "encode pairs as `tokenizer(first, second)`, and keep `token_type_ids`"
    subject = "train_dataset"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch, model = evidence.batch(), evidence.model
        segments = batch.segments if batch is not None else None
        if segments is None or model is None or not model.token_types or model.token_types < 2:
            return Verdict.inconclusive("the model or its tokenizer has no types for two texts")
        if segments.pairs < FEWEST_PAIRS or segments.pairs < MOST * segments.rows:
            return Verdict.inconclusive(f"{segments.pairs} of {segments.rows} rows are two texts")
        numbers = {"pairs": segments.pairs, "flat": segments.flat}
        if segments.flat < MOST * segments.pairs:
            text = f"{segments.divided} of {segments.pairs} pairs change their token type at the separator"
            return Verdict.refuted(text, **numbers)
        given = "" if segments.given else ", as the batch has no `token_type_ids`"
        text = f"all tokens of {segments.flat} of {segments.pairs} pairs have type 0{given}"
        if not model.pretrained:
            return Verdict.inconclusive(f"{text}; the model has no weights that expect others", **numbers)
        return Verdict.confirmed(text, **numbers)
