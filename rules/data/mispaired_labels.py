"""The collator gives rows the labels of other rows.

A collator that sorts, filters or reverses one column and not the others breaks the pairs of inputs and labels. Nothing
fails: the loss stays near that of a constant answer, because the labels are random to the model.

## Bad

    def collate(rows):
        labels = [row.pop("label") for row in rows]
        batch = collator(rows)
        batch["labels"] = torch.tensor(sorted(labels))
        return batch

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)  # <- mispaired-labels
    trainer.train()

A loop of your own, whose texts are sorted by length:

    def collate(rows):
        texts = sorted((row["premise"] for row in rows), key=len)
        batch = tokenizer(texts, truncation=True, padding=True, return_tensors="pt")
        return batch | {"labels": torch.tensor([row["label"] for row in rows])}

    model.train()
    for batch in DataLoader(raw["train"], batch_size=16, collate_fn=collate):
        optimizer.zero_grad()
        model(**batch).loss.backward()  # <- mispaired-labels
        optimizer.step()

## Good

    def collate(rows):
        labels = [row.pop("label") for row in rows]
        batch = collator(rows)
        batch["labels"] = torch.tensor(labels)
        return batch

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)
    trainer.train()

A loop of your own, whose rows are sorted by length:

    def collate(rows):
        rows = sorted(rows, key=lambda row: len(row["premise"]))
        batch = tokenizer([row["premise"] for row in rows], truncation=True, padding=True, return_tensors="pt")
        return batch | {"labels": torch.tensor([row["label"] for row in rows])}

    model.train()
    for batch in DataLoader(raw["train"], batch_size=16, collate_fn=collate):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

A collator may shuffle whole rows, and give each label another number. Mixed and smoothed labels are not compared.

## Fix

None: the probe compares rows with their batch, and does not show which line separates them.

## References

PyTorch documentation, `torch.utils.data`: working with `collate_fn`.
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

FEWEST = 3
TOKEN_LABELS = frozenset({"TokenClassification", "CausalLM"})
"""Tasks whose labels are one for each token of the inputs."""


class MispairedLabels(EvidenceRule):
    level = Level.ERROR
    message = "the collator gives rows the labels of other rows"
    help_text = "collect inputs and labels from the same rows, in the same order"
    subject = "data_collator"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch, model = evidence.batch(), evidence.model
        rows = batch.collated if batch is not None else None
        if rows is None or not rows.matched:
            return Verdict.inconclusive("no row of a batch is known again from what its collator received")
        text = f"{rows.relabelled} of {rows.matched} rows have the label of another row of their batch"
        if rows.are_swapped and rows.relabelled >= FEWEST:
            return Verdict.confirmed(text, rows=rows.matched, relabelled=rows.relabelled)
        if rows.misplaced >= FEWEST and model is not None and model.task in TOKEN_LABELS:
            moved = f"the labels of {rows.misplaced} of {rows.matched} rows are at other tokens than in the data set"
            return Verdict.confirmed(moved, rows=rows.matched, misplaced=rows.misplaced)
        if rows.relabelled:
            return Verdict.inconclusive(f"{rows.relabelled} of {rows.matched} rows have another label than their row")
        return Verdict.refuted(f"all {rows.matched} compared rows have their own label", rows=rows.matched)
