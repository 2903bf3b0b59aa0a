"""Padding is asked of a tokenizer that has no padding token.

GPT-2 and the base models of Llama and Mistral come without one. The first call that pads ends with an error, also for
a single row or rows of equal length.

## Bad

    def tokenize_pairs(batch):
        return lm_tokenizer(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize_pairs, batched=True)
    collator = DataCollatorWithPadding(lm_tokenizer)  # <- missing-pad-token
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)
    # raises ValueError: Asking to pad but the tokenizer does not have a padding token

A tokenizer call that pads ends the same way:

    def tokenize_lines(batch):
        return lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=32)  # <- missing-pad-token

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, args, train_dataset=lines["train"])
    # raises ValueError: Asking to pad but the tokenizer does not have a padding token

## Good

    def tokenize_pairs(batch):
        return lm_tokenizer(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize_pairs, batched=True)
    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    collator = DataCollatorWithPadding(lm_tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    model.resize_token_embeddings(len(lm_tokenizer))
    model.config.pad_token_id = lm_tokenizer.pad_token_id
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

## When it is fine

A checkpoint from the command line may have a padding token:

    import sys

    lm_tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "distilbert-base-uncased")
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer))

Code that is not shown here may give it one:

    from my_project import prepare_tokenizer

    prepare_tokenizer(lm_tokenizer)
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], padding=True), batched=True)

A branch may be for other tokenizers than this one:

    def encode(words, message):
        if hasattr(words, "image_processor"):
            return words(message, padding=True)
        return words(message)

    lines = text.map(lambda row: encode(lm_tokenizer, row["text"]), remove_columns=["text"])
    args = TrainingArguments("out", per_device_train_batch_size=1)
    lines = lines.map(lambda row: {"labels": row["input_ids"]})
    trainer = Trainer(lm, args, train_dataset=lines["train"].select([1]))

Blocks of one length need no padding:

    lm_tokenizer = AutoTokenizer.from_pretrained("gpt2")
    blocks = text.map(lambda batch: {"input_ids": [[5, 6, 7]] * 4, "labels": [[5, 6, 7]] * 4}, batched=True,
                      batch_size=None, remove_columns=["text"])
    trainer = Trainer(lm, args, train_dataset=blocks["train"], data_collator=default_data_collator)

## References

transformers#9785, transformers#2630.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Evidence,
    Finding,
    Level,
    Padding,
    Pipeline,
    Place,
    Reason,
    Rule,
    Tokenizer,
    Verdict,
    collations,
    confirmed,
    lacks_pad,
    literal,
    masks_words,
    refuted,
    text_of,
    unsettled,
)

NO_TOKEN = "Asking to pad but the tokenizer does not have a padding token"


class MissingPadToken(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Place] = set()
        for tokenizer in pipeline.tokenizers:
            place = min(_padded_at(pipeline, tokenizer), default=None)
            if place is None or place in reported or _may_have_one(tokenizer) or not lacks_pad(pipeline, tokenizer):
                continue
            reported.add(place)
            made = [Reason(tokenizer.origin, "made here, without a padding token")] if tokenizer.origin else []
            yield self.finding(
                place,
                f"the tokenizer of `{text_of(tokenizer.checkpoint)}` has no padding token to pad with",
                because=made,
                help="add one with `add_special_tokens` and resize the embeddings, or name a token that is not used",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NO_TOKEN)
        if failed is not None:
            return confirmed(f"the {failed.name} stage ends with `{NO_TOKEN}`")
        tokenizer = evidence.tokenizer
        if tokenizer is None:
            return unsettled("the run's tokenizer is not known")
        if tokenizer.pad_id is not None:
            return refuted(f"the tokenizer pads with id {tokenizer.pad_id}", pad_id=tokenizer.pad_id)
        return unsettled("the tokenizer has no padding token, and nothing was padded")


def _padded_at(pipeline: Pipeline, tokenizer: Tokenizer) -> list[Place]:
    """Where this tokenizer certainly pads: in its own calls, and where a collator with it is at work."""
    places = [
        encoding.origin
        for encoding in pipeline.encodings
        if encoding.tokenizer is tokenizer
        and encoding.padding in {Padding.LONGEST, Padding.FIXED}
        and encoding.origin
        and encoding.depth <= tokenizer.depth
    ]
    for collation in collations(pipeline):
        collator = collation.collator
        if collation.tokenizer is not tokenizer or (collator is not None and collator.pads is not True):
            continue
        # one that masks words ends earlier, for want of a mask token: mlm-on-causal-model
        if collator is None or not masks_words(collator):
            places.append((collator.origin if collator else None) or collation.place)
    return places


def _may_have_one(tokenizer: Tokenizer) -> bool:
    """Chat models of one name were published with and without a padding token."""
    name = literal(tokenizer.checkpoint)
    return isinstance(name, str) and ("instruct" in name.lower() or "chat" in name.lower())
