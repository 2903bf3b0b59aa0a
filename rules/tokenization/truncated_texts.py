"""Truncation removes a large part of the texts, although the model reads more tokens.

`max_length` is often left from a quick test, or copied from another data set. What is behind it never reaches the
model: often the second text of a pair, or the part that the label is about. No error and no warning is raised.

## Bad

    def encode(rows):
        return tokenizer(rows["premise"], rows["hypothesis"], truncation=True, max_length=12)  # <- truncated-texts

    few = raw.map(encode, batched=True)
    trainer = Trainer(model, args, train_dataset=few["train"], data_collator=collator)

## Good

    def encode(rows):
        return tokenizer(rows["premise"], rows["hypothesis"], truncation=True, max_length=128)

    few = raw.map(encode, batched=True)
    trainer = Trainer(model, args, train_dataset=few["train"], data_collator=collator)

## When it is fine

Texts longer than what the model reads have to be cut, or become several rows with `return_overflowing_tokens`. A few
long texts among shorter ones are not reported.

A limit of 512 tokens or more is seldom left over. Models without a table of positions (T5) read any number of tokens,
and the memory of a step bounds them:

    def encode(rows):
        articles = [" ".join(texts) * 40 for texts in zip(rows["premise"], rows["hypothesis"], strict=True)]
        summaries = tokenizer(text_target=rows["hypothesis"], truncation=True, max_length=128)
        return tokenizer(articles, truncation=True, max_length=512) | {"labels": summaries["input_ids"]}

    tokenizer = AutoTokenizer.from_pretrained("t5-small")
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    long = raw["train"].map(encode, batched=True, remove_columns=raw["train"].column_names)
    padded = DataCollatorForSeq2Seq(tokenizer, model=model)
    trainer = Trainer(model, args, train_dataset=long, data_collator=padded)
    trainer.train()

## Fix

None: a larger `max_length` takes memory and time.

## References

Transformers documentation, "Padding and truncation".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import EncodedTexts

FEWEST_TEXTS = 8
MANY, MUCH = 0.5, 0.33
"""Shares of the texts that are cut, and of their tokens that are lost."""
LONG = 512
"""So many tokens are a choice: what a step takes in memory, or what the checkpoint was trained with, bounds them."""
SECOND_LOST = 0.1
"""The share of pairs without their second text."""


class TruncatedTexts(EvidenceRule):
    level = Level.WARNING
    message = "truncation removes a large part of the texts"
    help_text = "allow a larger `max_length`, as long as the model reads it"

    def location_of(self, evidence: Evidence) -> Location:
        worst = _worst(evidence)
        return evidence.location if worst is None else worst.location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        worst = _worst(evidence)
        if worst is None:
            return Verdict.inconclusive("the run encoded too few texts by itself")
        where = "end" if worst.side == "right" else "start"
        text = f"{worst.cut} of {worst.texts} texts lose {worst.lost} of {worst.tokens} tokens at their {where}"
        numbers = {"texts": worst.texts, "cut": worst.cut, "lost": worst.lost, "tokens": worst.tokens}
        if worst.second_lost > SECOND_LOST * worst.pairs:
            lost = f"{worst.second_lost} of {worst.pairs} pairs lose all of their second text"
            return Verdict.confirmed(f"{lost}; {text}", second_lost=worst.second_lost, **numbers)
        if not worst.cut:
            return Verdict.refuted(f"none of {worst.texts} texts is cut", **numbers)
        positions = evidence.model.positions if evidence.model is not None else None
        if worst.cut < MANY * worst.texts or worst.lost < MUCH * worst.tokens:
            return Verdict.refuted(text, **numbers)
        if positions is not None and worst.limit >= positions:
            return Verdict.inconclusive(f"{text}, and the model reads {positions}", **numbers)
        if worst.limit >= LONG:
            return Verdict.inconclusive(f"{text}, and {worst.limit} are as many as memory may allow", **numbers)
        return Verdict.confirmed(f"{text}, kept are up to {worst.limit}", **numbers)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "cut-answers"


def _worst(evidence: Evidence) -> EncodedTexts | None:
    """The place that loses the largest share of its tokens, of those with texts enough."""
    calls = [each for each in evidence.encodings if each.texts >= FEWEST_TEXTS and each.tokens]
    return max(
        calls, key=lambda each: (each.second_lost > SECOND_LOST * each.pairs, each.lost / each.tokens), default=None
    )
