"""The collator drops tokens of the rows.

A collator that cuts its batch to a fixed length, or takes tokens out, hides text from the model that the data set has.
The rows look complete in the data set, so the loss is the only sign.

## Bad

    def collate(rows):
        batch = collator(rows)
        return {name: tensor[:, :10] if tensor.ndim == 2 else tensor for name, tensor in batch.items()}

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)  # <- dropped-tokens
    trainer.train()

## Good

    def collate(rows):
        batch = collator(rows)
        return {name: tensor[:, :512] if tensor.ndim == 2 else tensor for name, tensor in batch.items()}

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)
    trainer.train()

## When it is fine

The model may read no more tokens, and windows of long texts may be chosen at random:

    def collate(rows):
        windows = []
        for row in rows:
            start = random.randrange(1 + len(row["input_ids"]) // 2)
            windows.append({"input_ids": row["input_ids"][start:-2], "labels": row["label"]})
        return tokenizer.pad(windows, return_tensors="pt")

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)

Up to a tenth of the tokens is not reported.

## Fix

None: the limit may be right for the memory of the device.

## References

Transformers documentation, "Padding and truncation".
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

LARGEST_SHARE = 0.1
FEWEST_ROWS = 4
LEAST_EACH = 3
"""Tokens of a row: a shift of tokens and labels drops one or two of every row."""


class DroppedTokens(EvidenceRule):
    level = Level.WARNING
    message = "the collator drops tokens of the rows"
    help_text = "cut the texts when they are tokenized, at the length that the model reads"
    subject = "data_collator"

    def location_of(self, evidence: Evidence) -> Location:
        return evidence.location_of("collator")

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        rows = batch.collated if batch is not None else None
        if rows is None or not rows.tokens:
            return Verdict.inconclusive("no ids of a batch are known again from what its collator received")
        where = f", at their {'end' if rows.side == 'right' else 'start'}" if rows.side else ""
        text = f"{rows.cut} of {rows.matched} rows lose {rows.lost} of {rows.tokens} tokens{where}"
        numbers = {"rows": rows.matched, "cut": rows.cut, "lost": rows.lost, "tokens": rows.tokens}
        if rows.lost <= LARGEST_SHARE * rows.tokens:
            return Verdict.refuted(text, **numbers)
        positions = evidence.model.positions if evidence.model is not None else None
        if positions is not None and rows.longest >= positions:
            return Verdict.inconclusive(f"{text}, and the model reads {positions}", **numbers)
        if rows.cut < FEWEST_ROWS or rows.lost < LEAST_EACH * rows.cut:
            return Verdict.inconclusive(f"{text}, which is too little to decide", **numbers)
        return Verdict.confirmed(text, **numbers)
