"""Tokens are added to the tokenizer, and the model has no embedding for them.

The ids of new tokens lie beyond the last row of the embedding. The first batch that holds one ends the run: on the CPU
with `index out of range in self`, on a GPU with an assertion that points at another line.

## Bad

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})  # <- unresized-embeddings
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    # raises IndexError: index out of range in self

The vocabulary of GPT-2 has none of the tokens that others have from the beginning:

    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})  # <- unresized-embeddings
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    # raises IndexError: index out of range in self

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

With the other spelling:

    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    lm.resize_token_embeddings(len(lm_tokenizer))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A token that the tokenizer has already adds no id:

    lm_tokenizer.add_special_tokens({"pad_token": "<|endoftext|>"})
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

A setting that waits for a token to be missing adds none where the tokenizer may have it:

    if tokenizer.pad_token is None:
        tokenizer.add_special_tokens({"pad_token": "<padding>"})
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A plain word may be in the vocabulary:

    tokenizer.add_tokens(["man"])
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Models whose embedding is larger than their vocabulary have rows to spare, and code that is not shown may resize it:

    from my_project import fit_embeddings

    tokenizer.add_tokens(["<e1>", "<e2>"])
    fit_embeddings(tokenizer, model)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe: an id beyond the embedding ends the run.

## References

transformers#1848, transformers#24698; Transformers documentation, `PreTrainedModel.resize_token_embeddings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import script_text, special_tokens, token_feeds, tuning
from lintrain.pipeline.values.data import Padding, Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Mapping, Sequence, Value, literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

EXACT = frozenset({"bert", "distilbert", "electra", "gpt2", "gpt_neo", "llama", "mistral", "roberta", "xlm-roberta"})
"""Model types whose published embeddings have exactly one row for each token."""

WITHOUT_PAD = frozenset({"gpt2", "gpt_neo", "llama", "mistral"})
BRACKETED = lazy_pattern(r"[<\[][^<>\[\]]+[>\]]")
THERE_ALREADY = lazy_pattern(
    r"<\|.*\|>|<(s|/s|unk|pad|mask|eos|bos)>|\[(PAD|CLS|SEP|MASK|UNK|unused\d+)\]|<(unused|extra_id_|0x)\w*>"
)
"""Tokens that some vocabularies have from the beginning."""

MAKES_ROWS = r"resize_|set_input_embeddings|\.(word_embeddings|wte|embed_tokens|shared)\s*="
"""Code that gives a model another embedding."""

GPT2 = re.compile(r"(openai-community/|distilbert/)?(distil)?gpt2(-medium|-large|-xl)?")
LLAMA3 = re.compile(r"meta-llama/(Meta-)?Llama-3[\w.-]*")
"""Checkpoints whose vocabulary is known; `<|endoftext|>` is GPT-2's only special token."""

PAD = lazy_pattern(r"[<\[]\|?pad\|?[>\]]", re.IGNORECASE)
"""Spellings of a padding token that are in neither of these vocabularies."""

INDEX_ERRORS = ("index out of range in self", "IndexError", "device-side assert")


class UnresizedEmbeddings(Rule):
    level = Level.ERROR
    keywords = "token"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        pairs = {id(pair[0]): pair for pair in _read_together(pipeline)}
        for tokenizer, model in pairs.values():
            added = _added(pipeline, tokenizer)
            if added is None or not _has_exact_embedding(pipeline, tokenizer, model):
                continue
            if script_text.mentions(pipeline, MAKES_ROWS):
                continue
            location, token = added
            made = [Related(model.origin, "the model keeps the embedding of its checkpoint")] if model.origin else []
            yield self.finding(
                location,
                f"`{token}` is a new token, and the embeddings get no row for it",
                related=made,
                help="call `model.resize_token_embeddings(len(tokenizer))` after it",
                facts=_cure(pipeline, tokenizer, model, location),
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        rows = evidence.model.embedding_rows if evidence.model else None
        tokens = evidence.tokenizer.tokens if evidence.tokenizer else None
        if rows is None or tokens is None:
            return Verdict.inconclusive("the tokenizer's tokens or the embedding's rows are not known")
        text = f"the tokenizer has {tokens} tokens, the embedding {rows} rows"
        if tokens <= rows:
            return Verdict.refuted(text, tokens=tokens, rows=rows)
        failed = evidence.failed_with(*INDEX_ERRORS)
        return Verdict.confirmed(
            f"{text}{f', and the {failed.name} stage fails' if failed else ''}", tokens=tokens, rows=rows
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        statement = finding.facts.get("statement")
        if not isinstance(statement, str):
            return None
        return fixes.Fix.of("resize the embeddings", fixes.InsertAfter(finding.location, statement), safe=True)


def _read_together(pipeline: Pipeline) -> Iterator[tuple[Tokenizer, Model]]:
    """The tokenizers and models that the same run or loop uses."""
    for feed in token_feeds.token_feeds(pipeline):
        if feed.tokenizer is not None and feed.model is not None:
            yield feed.tokenizer, feed.model
    for run in pipeline.runs:
        tokenizer = run.value("processing_class")
        if isinstance(tokenizer, Tokenizer) and run.model is not None and run.train_calls:
            yield tokenizer, run.model
    pads = any(each.padding in {Padding.LONGEST, Padding.FIXED} for each in pipeline.encodings)
    if not pads or len(pipeline.tokenizers) != 1:
        return
    for training in tuning.trainings(pipeline):
        if training.optimizer is not None and isinstance(training.model, Model):
            yield pipeline.tokenizers[0], training.model


def _added(pipeline: Pipeline, tokenizer: Tokenizer) -> tuple[Location, str] | None:
    """Where a token is certainly added that the tokenizer did not have, and the token."""
    facts = special_tokens.certain_facts(pipeline, tokenizer)
    kind, name = facts.model_type if facts else None, str(literal(tokenizer.checkpoint))
    lacks_own = facts is not None and facts.has_pad_token is False
    for addition in tokenizer.additions:
        if special_tokens.is_certain_setting(addition, lacks_own=lacks_own):
            for token in _tokens_in(addition.value):
                if _is_new(token, name, kind):
                    return addition.location, token
    return None


def _is_new(token: str, checkpoint: str, kind: str | None) -> bool:
    """Whether the vocabulary of a checkpoint certainly has no such token."""
    is_gpt2 = GPT2.fullmatch(checkpoint) is not None
    is_bare_pad = token == "[PAD]" and kind in WITHOUT_PAD
    if is_bare_pad or ((is_gpt2 or LLAMA3.fullmatch(checkpoint)) and PAD.fullmatch(token)):
        return True
    is_there = token == "<|endoftext|>" if is_gpt2 else THERE_ALREADY.fullmatch(token) is not None
    return BRACKETED.fullmatch(token) is not None and not is_there


def _tokens_in(value: Value) -> Iterator[str]:
    """The tokens spelled out in what was added: in a list, or in a dictionary by their part."""
    values = list(value.entries.values()) if isinstance(value, Mapping) else [value]
    for each in values:
        for item in each.items if isinstance(each, Sequence) else [each]:
            token = literal(item)
            if isinstance(token, str):
                yield token


def _has_exact_embedding(pipeline: Pipeline, tokenizer: Tokenizer, model: Model) -> bool:
    facts = special_tokens.certain_facts(pipeline, model)
    same = literal(model.checkpoint) == literal(tokenizer.checkpoint)
    is_known = facts is not None and facts.model_type in EXACT and same and model.how == "from_pretrained"
    handed = special_tokens.is_handed_over(pipeline, tokenizer) or special_tokens.is_handed_over(pipeline, model)
    return is_known and not handed and model.config is None and "ignore_mismatched_sizes" not in model.arguments


def _cure(pipeline: Pipeline, tokenizer: Tokenizer, model: Model, location: Location) -> dict[str, str | None]:
    """The statement that resizes, where both have one name and the model is made before the addition."""
    names = [{binding.name for binding in pipeline.names_of(value)} for value in (model, tokenizer)]
    before = model.origin is not None and model.origin.path == location.path and model.origin < location
    if not before or any(len(each) != 1 for each in names):
        return {}
    return {"statement": f"{names[0].pop()}.resize_token_embeddings(len({names[1].pop()}))"}
