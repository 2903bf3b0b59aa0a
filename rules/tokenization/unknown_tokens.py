"""Much of the text reaches the model as the unknown token.

The words behind it are lost before training: different sentences become the same ids. It happens when text is of
another language, script or case than the tokenizer was made for. No error is raised.

## Bad

    greek = str.maketrans("aeiou", "αεηιο")
    foreign = raw.map(lambda batch: tokenizer([text.translate(greek) for text in batch["premise"]]), batched=True)
    trainer = Trainer(model, args, train_dataset=foreign["train"], data_collator=collator)  # <- unknown-tokens

## Good

    english = raw.map(lambda batch: tokenizer([text.lower() for text in batch["premise"]]), batched=True)
    trainer = Trainer(model, args, train_dataset=english["train"], data_collator=collator)

## When it is fine

Tokenizers that work on bytes have no unknown token, and text that masks characters on purpose loses nothing. Up to
one in a hundred unknown tokens is usual.

## Fix

None: another tokenizer, cleaned text and new tokens are all reasonable.

## References

Hugging Face course, chapter 6, "WordPiece tokenization".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

MUCH, LITTLE = 0.03, 0.01
FEWEST_TOKENS = 300


class UnknownTokens(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batches = [batch for batch in evidence.batches if batch.ordinary_tokens is not None]
        ordinary = sum(batch.ordinary_tokens or 0 for batch in batches)
        unknown = sum(batch.unknown_tokens or 0 for batch in batches)
        if ordinary < FEWEST_TOKENS:
            return Verdict.inconclusive(f"{ordinary} tokens were seen, fewer than {FEWEST_TOKENS} say nothing")
        pieces = sorted({piece for batch in batches for piece in batch.unknown_pieces})[:5]
        lost = f", such as {', '.join(f'`{piece}`' for piece in pieces)}" if pieces else ""
        text = f"{unknown} of {ordinary} tokens are unknown ({unknown / ordinary:.1%})"
        if unknown / ordinary > MUCH:
            return Verdict.confirmed(text + lost, unknown=unknown, tokens=ordinary, pieces=list(pieces))
        if unknown / ordinary < LITTLE:
            return Verdict.refuted(text, unknown=unknown, tokens=ordinary)
        return Verdict.inconclusive(f"{text}, between {LITTLE:.0%} and {MUCH:.0%}", unknown=unknown, tokens=ordinary)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the tokenizer does not know much of the training text",
            help="take the tokenizer and model of this text's language, script and case",
            subject="train_dataset",
        )
        yield from self.if_confirmed(finding, evidence)
