"""Inputs are longer than the positions that the model has.

A model with learned positions (BERT, RoBERTa, GPT-2) ends with an index or shape error at the first such batch, which
may come hours into the run. A model with rotary positions (Llama) goes on, with quality that decays beyond its limit.

## Bad

    whole = raw.map(lambda batch: tokenizer([text * 60 for text in batch["premise"]]), batched=True)
    trainer = Trainer(model, args, train_dataset=whole["train"], data_collator=collator)  # <- over-long-input

## Good

    cut = raw.map(lambda batch: tokenizer([text * 60 for text in batch["premise"]], truncation=True), batched=True)
    trainer = Trainer(model, args, train_dataset=cut["train"], data_collator=collator)

## When it is fine

Relative positions (T5) and ALiBi have no limit; rotary positions with scaling configured are made for more than their
first limit.

## Fix

None: cutting the text and a model for longer text are both reasonable.

## References

transformers, RoBERTa: of 514 positions, 512 can be used.
"""

from collections.abc import Iterator

from lintrain import Evidence, Finding, Level, Rule, Verdict, confirmed, refuted, unsettled

POSITION_ERRORS = (
    "index out of range in self",
    "must match the existing size",
    "is out of bounds for dimension",
    "The size of tensor a",
)


class OverLongInput(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        limit = evidence.model.positions if evidence.model else None
        longest = longest_input(evidence)
        if limit is None or longest is None:
            return unsettled("the model's positions or the lengths of its inputs are not known")
        if longest > limit:
            failure = evidence.failed_with(*POSITION_ERRORS)
            ends = f"; the {failure.name} stage fails on it" if failure else ""
            return confirmed(f"{longest} tokens for {limit} positions{ends}", longest=longest, positions=limit)
        return refuted(
            f"the longest input has {longest} tokens for {limit} positions", longest=longest, positions=limit
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        decays = evidence.model is not None and evidence.model.rotary
        finding = self.finding(
            evidence.place,
            "training inputs are longer than the model's positions",
            help="cut them: `truncation=True` and a `max_length` of at most the model's positions",
            subject="train_dataset",
            level=Level.WARNING if decays else Level.ERROR,
        )
        yield from self.if_confirmed(finding, evidence)


def longest_input(evidence: Evidence) -> int | None:
    """The most tokens of a row: of the column of token ids where there is one, and of the collated batches."""
    lengths: list[int] = []
    for split in evidence.splits:
        column = split.column("input_ids")
        lengths.extend(column.lengths[-1:] if column else ())
    for batch in evidence.batches:
        ids = batch.tensor("input_ids")
        lengths.extend(ids.shape[1:2] if ids else ())
    return max(lengths, default=None)
