"""The end of text is also the padding token, and what makes the labels leaves all padding out.

Every end of text in the data loses its label with the padding, so the model is never shown where to stop. Training
looks healthy, and generation runs on until its length limit.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token  # <- pad-token-is-eos

    def tokenize_lines(batch):
        return lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_lines(batch):
        return lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A collator that pads the labels by their position leaves the end of text alone:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_lines(batch):
        rows = lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)
        return {**rows, "labels": rows["input_ids"]}

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForSeq2Seq(lm_tokenizer)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

A tokenizer that may have a padding token of its own keeps it, so nothing is certain:

    import sys

    lm_tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "gpt2")
    if lm_tokenizer.pad_token is None:
        lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_lines(batch):
        return lm_tokenizer([line + " " for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

Text without any end of text has none to lose:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"].select(range(1, 40)), data_collator=collator)

## Fix

None: a new token and a collator that masks by attention are both reasonable.

## References

transformers#23530, transformers#22794, trl#976; Transformers documentation, `DataCollatorForLanguageModeling`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Place,
    Reason,
    Rule,
    Tokenizer,
    Verdict,
    collations,
    confirmed,
    masks_words,
    padding_by_eos,
    put_into_data,
    refuted,
    unsettled,
)

IGNORED = "-100"


class PadTokenIsEos(Rule):
    level = Level.ERROR
    matters_in_tests = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Place] = set()
        for tokenizer in pipeline.tokenizers:
            setting = padding_by_eos(pipeline, tokenizer)
            written = put_into_data(pipeline, tokenizer, "eos")
            unlabelled = _unlabelled_at(pipeline, tokenizer)
            if setting is None or written is None or unlabelled is None or setting.place in reported:
                continue
            reported.add(setting.place)
            yield self.finding(
                setting.place,
                "padding is the end of text here, and all padding loses its label",
                because=[
                    Reason(written, "an end of text is put here", "end of text"),
                    Reason(unlabelled, "every padding token loses its label here", "labels"),
                ],
                help="add a padding token of its own and resize the embeddings, or make labels by the attention mask",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None:
            return unsettled(evidence.not_reached("batch"))
        labels = batch.labels
        if labels is None or not labels.eos_attended:
            return unsettled("no end of text was seen among the attended tokens of the batches")
        text = f"{labels.eos_supervised} of {labels.eos_attended} ends of text have a label"
        if labels.eos_supervised:
            return refuted(text, supervised=labels.eos_supervised, attended=labels.eos_attended)
        return confirmed(text, supervised=0, attended=labels.eos_attended)


def _unlabelled_at(pipeline: Pipeline, tokenizer: Tokenizer) -> Place | None:
    """Where labels of padding are set to -100 by its id: in the library's collator, or in code of the script."""
    for collation in collations(pipeline):
        collator = collation.collator
        if collator is not None and collation.tokenizer is tokenizer and masks_words(collator) is False:
            return collator.origin
    for test in pipeline.token_tests:
        token = test.token
        if token.owner is tokenizer and token.name == "pad_token_id" and _masks_labels(pipeline, test.place):
            return test.place
    return None


def _masks_labels(pipeline: Pipeline, place: Place) -> bool:
    """Whether the line of a comparison sets labels to the ignored class."""
    line = pipeline.sources[place.path].text.splitlines()[place.line - 1]
    return IGNORED in line and "label" in line
