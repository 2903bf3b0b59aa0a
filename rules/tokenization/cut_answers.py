"""The texts of a causal model are cut before their end, which is what the model is to learn.

`truncation=True` cuts a text at its end. In examples of a prompt and its answer that is the answer: the model learns
from the prompts, sees no end of text in the long examples, and later does not know where to stop.

## Bad

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_examples(batch):
        pairs = zip(batch["premise"], batch["hypothesis"])
        texts = [f"### Premise: {premise} ### Answer: {hypothesis}" for premise, hypothesis in pairs]
        texts = [text + lm_tokenizer.eos_token for text in texts]
        return lm_tokenizer(texts, truncation=True, max_length=54)  # <- cut-answers

    examples = raw.map(tokenize_examples, batched=True, remove_columns=raw["train"].column_names)
    lm_collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=lm_collator)

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_examples(batch):
        pairs = zip(batch["premise"], batch["hypothesis"])
        texts = [f"### Premise: {premise} ### Answer: {hypothesis}" for premise, hypothesis in pairs]
        texts = [text + lm_tokenizer.eos_token for text in texts]
        return lm_tokenizer(texts, truncation=True, max_length=256)

    examples = raw.map(tokenize_examples, batched=True, remove_columns=raw["train"].column_names)
    lm_collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=lm_collator)

## When it is fine

Continuous text may be cut anywhere:

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_lines(batch):
        lines = [line + lm_tokenizer.eos_token for line in batch["text"]]
        return lm_tokenizer(lines, truncation=True, max_length=48)

    lines = text.map(tokenize_lines, batched=True)
    lm_collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"].remove_columns(["text"]), data_collator=lm_collator)

## Fix

None: a larger `max_length`, a shorter prompt and leaving out long examples are all reasonable.

## References

TRL documentation, `SFTConfig`, parameter `max_length`; transformers documentation, "Padding and truncation".
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

MANY = 0.2
"""The share of rows that are cut above which it is more than a few long texts."""
LEAST_CUT = 3
NEARLY_ALL = 0.9
LEAST_START = 2
"""Tokens that all rows begin with, as those of a template of questions and answers do."""


class CutAnswers(EvidenceRule):
    level = Level.WARNING
    message = "many training texts are cut before their EOS token"
    help_text = "allow a larger `max_length`, or leave out what is longer"
    subject = "train_dataset"

    def location_of(self, evidence: Evidence) -> Location:
        return evidence.location_of("encoding")

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch, model = evidence.batch(), evidence.model
        edges = batch.edges if batch is not None else None
        if edges is None or model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        is_masked = batch is not None and batch.labels is not None and batch.labels.supervised < batch.labels.attended
        if edges.same_start < LEAST_START and not is_masked:
            return Verdict.inconclusive(f"the {edges.rows} rows may be continuous text, which ends anywhere")
        if model.task != "CausalLM":
            return Verdict.inconclusive(f"the {edges.rows} rows are not those of a causal language model")
        shorter = edges.rows - edges.are_longest
        ended = edges.ends_with_eos - edges.longest_with_eos
        of_longest = f"{edges.longest_with_eos} of these end with the EOS token"
        text = f"{edges.are_longest} of {edges.rows} rows have {edges.longest} tokens, {of_longest}"
        numbers = {"rows": edges.rows, "cut": edges.are_longest - edges.longest_with_eos}
        if shorter < LEAST_CUT or ended < NEARLY_ALL * shorter:
            # Where no row is whole, an end of text is not known either.
            is_known = edges.ends_with_eos > NEARLY_ALL * edges.rows
            return (Verdict.refuted if is_known else Verdict.inconclusive)(text, **numbers)
        is_cut = numbers["cut"] >= max(LEAST_CUT, MANY * edges.rows)
        ends = f"{text}, all but {shorter - ended} of the {shorter} shorter ones do"
        return (Verdict.confirmed if is_cut else Verdict.refuted)(ends, **numbers)
