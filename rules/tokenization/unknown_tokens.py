"""Much of the text becomes the unknown token.

These words are lost before training: different sentences get the same token ids. This happens if the text has another
language, script or case than the training data of the tokenizer. No error is raised.

## Bad

    greek = str.maketrans("aeiou", "αεηιο")
    foreign = raw.map(lambda batch: tokenizer([text.translate(greek) for text in batch["premise"]]), batched=True)
    trainer = Trainer(model, args, train_dataset=foreign["train"], data_collator=collator)  # <- unknown-tokens

## Good

    english = raw.map(lambda batch: tokenizer([text.lower() for text in batch["premise"]]), batched=True)
    trainer = Trainer(model, args, train_dataset=english["train"], data_collator=collator)

## When it is fine

Byte-level tokenizers have no unknown token, and text may mask characters on purpose. Up to 1 % of unknown tokens is
normal.

## Fix

None: another tokenizer, cleaned text and new tokens are all reasonable.

## References

Hugging Face course, chapter 6, "WordPiece tokenization".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

MUCH, LITTLE = 0.03, 0.01
"""Shares of unknown tokens that confirm and refute the finding."""

FEWEST_TOKENS = 300


class UnknownTokens(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batches = [batch for batch in evidence.batches if batch.ordinary_tokens is not None]
        ordinary = sum(batch.ordinary_tokens or 0 for batch in batches)
        unknown = sum(batch.unknown_tokens or 0 for batch in batches)
        if ordinary < FEWEST_TOKENS:
            return Verdict.inconclusive(f"{ordinary} tokens were measured, at least {FEWEST_TOKENS} are needed")
        pieces = sorted({piece for batch in batches for piece in batch.unknown_pieces})[:5]
        examples = f", such as {', '.join(f'`{piece}`' for piece in pieces)}" if pieces else ""
        text = f"{unknown} of {ordinary} tokens are unknown ({unknown / ordinary:.1%})"
        if unknown / ordinary > MUCH:
            return Verdict.confirmed(text + examples, unknown=unknown, tokens=ordinary, pieces=list(pieces))
        if unknown / ordinary < LITTLE:
            return Verdict.refuted(text, unknown=unknown, tokens=ordinary)
        return Verdict.inconclusive(f"{text}, between {LITTLE:.0%} and {MUCH:.0%}", unknown=unknown, tokens=ordinary)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "much of the training text becomes the unknown token",
            help="use a tokenizer and model for the language, script and case of this text",
            subject="train_dataset",
        )
        yield from self.if_confirmed(finding, evidence)
