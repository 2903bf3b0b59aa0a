"""The examples of a causal model never end with the end-of-text token.

The tokenizers of GPT-2, Llama and Mistral do not add it. A model that never sees where an answer ends does not learn
to stop: its answers run on until the length limit.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_example(row):
        return lm_tokenizer(  # <- missing-eos
            f"### Premise: {row['premise']} ### Hypothesis: {row['hypothesis']}", truncation=True, max_length=96
        )

    examples = raw.map(tokenize_example, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_example(row):
        example = f"### Premise: {row['premise']} ### Hypothesis: {row['hypothesis']}{lm_tokenizer.eos_token}"
        return lm_tokenizer(example, truncation=True, max_length=96)

    examples = raw.map(tokenize_example, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## When it is fine

Text of a data set may hold its own end, and running text needs none:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

A tokenizer may be told to add it:

    words = AutoTokenizer.from_pretrained("meta-llama/Llama-3.2-1B", add_eos_token=True, pad_token="<unk>")
    llama = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
    examples = raw.map(lambda row: words(f"Premise: {row['premise']}", truncation=True, max_length=96),
                       remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(words, mlm=False)
    trainer = Trainer(llama, args, train_dataset=examples["train"], data_collator=collator)

TRL adds it to text by itself:

    chats = raw.map(lambda row: {"text": f"Premise: {row['premise']}"}, remove_columns=raw["train"].column_names)
    trainer = SFTTrainer("gpt2", train_dataset=chats["train"])

## Fix

None: a padding token of its own has to come with it, for labels of padding are masked, and where the end belongs only
the data tells.

## References

transformers#22794, trl#734.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain import (
    Constant,
    Encoding,
    Evidence,
    Finding,
    Level,
    Pipeline,
    Place,
    Reason,
    Rule,
    SpecialToken,
    Task,
    Text,
    TokenFeed,
    Tokenizer,
    Verdict,
    certain_facts,
    confirmed,
    is_handed_over,
    is_missing,
    lazy_pattern,
    parts_of,
    refuted,
    token_feeds,
    unsettled,
    written_texts,
)

ADDS_NONE = frozenset({"gpt2", "gpt_neo", "llama", "mistral", "phi"})
"""Model types whose published tokenizers end no text by themselves."""

MAY_END = lazy_pattern(r"<\||</|<end|\[/?(EOS|SEP|END)|eos", re.IGNORECASE)
"""Literals that may be written for an end of text."""

SPEAKS_OF_PADDING = lazy_pattern(r"pad_token|eos_token_id\s*=|generate\(")
MOST = 0.05


class MissingEos(Rule):
    level = Level.WARNING
    matters_in_tests = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Place] = set()
        for feed in token_feeds(pipeline):
            encoding, tokenizer = feed.encoding, feed.tokenizer
            if encoding is None or tokenizer is None or encoding.origin is None or encoding.origin in reported:
                continue
            if not _adds_none(pipeline, feed, tokenizer) or not _is_form(encoding):
                continue
            if _speaks_of_eos(pipeline):
                return
            reported.add(encoding.origin)
            yield self.finding(
                encoding.origin,
                "these examples end without the end-of-text token, which nothing adds",
                because=[Reason(feed.place, "a causal model is trained on them", "read")],
                help="append `tokenizer.eos_token` to each example, and pad with another token",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        edges = batch.edges if batch else None
        if edges is None:
            return unsettled(evidence.not_reached("batch"))
        text = f"{edges.ends_with_eos} of {edges.rows} rows end with the end-of-text token"
        if edges.equal_lengths:
            return unsettled(f"{text}; all rows are equally long, so they may be cut", rows=edges.rows)
        if edges.ends_with_eos > MOST * edges.rows:
            return refuted(text, rows=edges.rows, ended=edges.ends_with_eos)
        return confirmed(text, rows=edges.rows, ended=edges.ends_with_eos)


def _speaks_of_eos(pipeline: Pipeline) -> bool:
    """Whether code speaks of an end of text otherwise than for padding and generation: it may be added anywhere."""
    lines = [line for source in pipeline.sources.values() for line in source.text.splitlines()]
    code = [line for line in lines if not line.lstrip().startswith("#") and "missing-eos" not in line]
    return any("eos" in line.lower() and not SPEAKS_OF_PADDING.search(line) for line in code)


def _adds_none(pipeline: Pipeline, feed: TokenFeed, tokenizer: Tokenizer) -> bool:
    """Whether a causal model reads what its tokenizer certainly ends with nothing."""
    facts = certain_facts(pipeline, tokenizer)
    is_causal = feed.model is not None and feed.model.task is Task.CAUSAL_LM
    told = {"add_eos_token", "eos_token"} & {*tokenizer.arguments, *tokenizer.attributes}
    known = facts is not None and facts.model_type in ADDS_NONE and tokenizer.is_complete
    return is_causal and known and not told and not is_handed_over(pipeline, tokenizer)


def _is_form(encoding: Encoding) -> bool:
    """Whether the text is a form that the script fills in: its words around columns, and no end of text among them."""
    texts = [text for text in written_texts(encoding) if isinstance(text, Text)]
    overflow = encoding.arguments.get("return_overflowing_tokens", Constant(None))
    return bool(texts) and is_missing(overflow) and all(_fills_in(text) for text in texts)


def _fills_in(text: Text) -> bool:
    parts = list(parts_of(text))
    literals = [part.value for part in parts if isinstance(part, Constant) and isinstance(part.value, str)]
    varying = [part for part in parts if not isinstance(part, Constant)]
    has_words = any(re.search(r"[A-Za-z]{3}", words) for words in literals)
    may_end = any(MAY_END.search(words) for words in literals) or any(isinstance(part, SpecialToken) for part in parts)
    return has_words and bool(varying) and not may_end
