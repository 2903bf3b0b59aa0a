"""Tokens are added to the tokenizer, but the model's embedding is not resized.

The ids of new tokens are beyond the last row of the embedding. The first batch with such a token raises an error: on
the CPU `index out of range in self`, on a GPU an assertion that points to another line.

## Bad

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})  # <- unresized-embeddings
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    # raises IndexError: index out of range in self

GPT-2 has no padding token of any spelling:

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

A token that the tokenizer already has adds no id:

    lm_tokenizer.add_special_tokens({"pad_token": "<|endoftext|>"})
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

A token that is only added if it is missing may exist already:

    if tokenizer.pad_token is None:
        tokenizer.add_special_tokens({"pad_token": "<padding>"})
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A plain word may be in the vocabulary:

    tokenizer.add_tokens(["man"])
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Some embeddings have more rows than the tokenizer has tokens, and other code may resize them:

    from my_project import fit_embeddings

    tokenizer.add_tokens(["<e1>", "<e2>"])
    fit_embeddings(tokenizer, model)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe: an id beyond the embedding raises an error.

## References

transformers#1848, transformers#24698; Transformers documentation, `PreTrainedModel.resize_token_embeddings`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lintrain.analysis import script_text, token_feeds
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import UNKNOWN, Constant, Mapping, Sequence, Unknown, Value, literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

EXACT = frozenset({"bert", "distilbert", "electra", "gpt2", "gpt_neo", "llama", "mistral", "roberta", "xlm-roberta"})
"""Model types whose published embeddings have exactly one row for each token."""

WITHOUT_PAD = frozenset({"gpt2", "gpt_neo", "llama", "mistral"})
BRACKETED = lazy_pattern(r"[<\[][^<>\[\]]+[>\]]")
EXISTING_TOKEN = lazy_pattern(
    r"<\|.*\|>|<(s|/s|unk|pad|mask|eos|bos)>|\[(PAD|CLS|SEP|MASK|UNK|unused\d+)\]|<(unused|extra_id_|0x)\w*>"
)
"""Tokens that are part of some vocabularies."""

REPLACES_EMBEDDING = r"resize_|set_input_embeddings|\.(word_embeddings|wte|embed_tokens|shared)\s*="
"""Code that resizes or replaces the embedding of a model."""

GPT2 = re.compile(r"(openai-community/|distilbert/)?(distil)?gpt2(-medium|-large|-xl)?")
LLAMA3 = re.compile(r"meta-llama/(Meta-)?Llama-3[\w.-]*")
"""Checkpoints whose vocabulary is known; `<|endoftext|>` is the only special token of GPT-2."""

PAD = lazy_pattern(r"[<\[]\|?pad\|?[>\]]", re.IGNORECASE)
"""Spellings of a padding token that are in neither of these vocabularies."""

CLASS_WITHOUT_PAD = re.compile(r"(?:Llama|Mistral|GPT2)(?:ForCausalLM|LMHeadModel|Tokenizer)")
"""Classes whose published checkpoints have no padding token, and one row of the embedding for each token."""

OWN_RESIZING = r"resize\w*(?:embed|token|vocab)|(?:embed|token|vocab)\w*resize|set_input_embeddings"
"""Names of functions that resize or replace an embedding."""

INDEX_ERRORS = ("index out of range in self", "IndexError", "device-side assert")
"""Error messages for ids beyond the embedding."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that resizes the embedding; None without a fix."""

    statement: str | None


class UnresizedEmbeddings(Rule[Claim]):
    level = Level.ERROR
    keywords = "token"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found = (*token_feeds.read_together(pipeline), *token_feeds.paired(pipeline))
        pairs = {id(read): (read, model) for _, read, model in found}
        for tokenizer, model in pairs.values():
            added = _added(pipeline, tokenizer)
            if added is None or not _has_exact_embedding(pipeline, tokenizer, model):
                continue
            if script_text.mentions(pipeline, REPLACES_EMBEDDING):
                continue
            location, token = added
            made = [Related(model.origin, "the model has the embedding of its checkpoint")] if model.origin else []
            yield self.finding(
                location,
                f"`{token}` is a new token, but the embedding is not resized",
                related=made,
                help="call `model.resize_token_embeddings(len(tokenizer))` afterwards",
                claim=Claim(_resizing(pipeline, tokenizer, model, location)),
            )
        yield from self._by_class(pipeline, pairs.keys())

    def _by_class(self, pipeline: Pipeline, judged: Collection[int]) -> Iterator[Finding[Claim]]:
        """Padding tokens for models of unknown checkpoints whose classes have none."""
        if script_text.mentions(pipeline, REPLACES_EMBEDDING) or script_text.mentions_name(pipeline, OWN_RESIZING):
            return
        for tokenizer, model in _of_one_checkpoint(pipeline):
            added = next((each for each in tokenizer.additions if not each.conditions), None)
            token = next((each for each in _tokens_in(added.value) if PAD.fullmatch(each)), None) if added else None
            if added is None or token is None or id(tokenizer) in judged:
                continue
            made = [Related(model.origin, f"`{model.name}` has no row for it", "model")] if model.origin else []
            yield self.finding(
                added.location,
                f"`{token}` is a new token, but the embedding is not resized",
                related=made,
                help="call `model.resize_token_embeddings(len(tokenizer))` afterwards",
                level=Level.WARNING,
                claim=Claim(None),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        rows = evidence.model.embedding_rows if evidence.model else None
        edges = [batch.edges for batch in evidence.batches if batch.edges is not None]
        is_given = rows is not None and any(edge.highest_id >= rows for edge in edges)
        # Tokens that no row uses do no harm: many tokenizers name more tokens than they give.
        if is_given or evidence.failed_with(*INDEX_ERRORS):
            yield self.finding(
                evidence.location_of("tokens"),
                "the tokenizer gives ids for which the model has no embedding",
                help="call `model.resize_token_embeddings(len(tokenizer))` after adding tokens",
            )

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """Ids of another model's tokenizer are beyond the embedding as well."""
        return cause.rule == "tokenizer-model-mismatch" or super().follows_from(finding, verdict, cause)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        rows = evidence.model.embedding_rows if evidence.model else None
        tokens = evidence.tokenizer.tokens if evidence.tokenizer else None
        if rows is None or tokens is None:
            return Verdict.inconclusive("the number of tokens or of embedding rows is unknown")
        text = f"the tokenizer has {tokens} tokens, the embedding has {rows} rows"
        if tokens <= rows:
            return Verdict.refuted(text, tokens=tokens, rows=rows)
        failed = evidence.failed_with(*INDEX_ERRORS)
        return Verdict.confirmed(
            f"{text}{f'; the {failed.name} stage failed' if failed else ''}", tokens=tokens, rows=rows
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        statement = finding.claim.statement if finding.claim else None
        if statement is None:
            return None
        return fixes.Fix.of("resize the embedding", fixes.InsertAfter(finding.location, statement), safe=True)


def _of_one_checkpoint(pipeline: Pipeline) -> Iterator[tuple[Tokenizer, Model]]:
    """The tokenizers and trained models of one unknown checkpoint, of classes without a padding token."""
    trained = {id(model) for optimizer in pipeline.optimizers for model in optimizer.trains}
    trained |= {id(run.model) for run in pipeline.runs if run.model is not None}
    # Where options decide what wraps the model, only its name is known to be trained.
    wrapped = {each.name for optimizer in pipeline.optimizers for each in optimizer.trains if isinstance(each, Unknown)}
    for model in pipeline.models:
        is_known = not model.is_pretrained or token_feeds.certain_facts(pipeline, model) is not None
        is_trained = id(model) in trained or any(each.name in wrapped for each in pipeline.names_of(model))
        if is_known or not is_trained or not CLASS_WITHOUT_PAD.match(model.name):
            continue
        for tokenizer in pipeline.tokenizers:
            name = tokenizer.path.rpartition(".")[2] or tokenizer.path
            is_of_class = CLASS_WITHOUT_PAD.match(name) is not None or "AutoTokenizer" in tokenizer.path
            if is_of_class and _is_same(tokenizer.checkpoint, model.checkpoint):
                yield tokenizer, model


def _is_same(one: Value, other: Value) -> bool:
    if isinstance(one, Constant) and isinstance(other, Constant):
        return one.value == other.value
    return one is other and one is not UNKNOWN


def _added(pipeline: Pipeline, tokenizer: Tokenizer) -> tuple[Location, str] | None:
    """The first token that is certainly added and new, with its location."""
    facts = token_feeds.certain_facts(pipeline, tokenizer)
    kind, name = facts.model_type if facts else None, str(literal(tokenizer.checkpoint))
    lacks_own = facts is not None and facts.has_pad_token is False
    for addition in tokenizer.additions:
        if token_feeds.is_certain_setting(addition, lacks_own=lacks_own):
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
    is_there = token == "<|endoftext|>" if is_gpt2 else EXISTING_TOKEN.fullmatch(token) is not None
    return BRACKETED.fullmatch(token) is not None and not is_there


def _tokens_in(value: Value) -> Iterator[str]:
    """The literal tokens in a list or dictionary of added tokens."""
    values = list(value.entries.values()) if isinstance(value, Mapping) else [value]
    for each in values:
        for item in each.items if isinstance(each, Sequence) else [each]:
            token = literal(item)
            if isinstance(token, str):
                yield token


def _has_exact_embedding(pipeline: Pipeline, tokenizer: Tokenizer, model: Model) -> bool:
    facts = token_feeds.certain_facts(pipeline, model)
    is_same = literal(model.checkpoint) == literal(tokenizer.checkpoint)
    fits = is_same or _have_one_vocabulary(pipeline, tokenizer, model)
    is_known = facts is not None and facts.model_type in EXACT and fits and model.how == "from_pretrained"
    is_handed_over = token_feeds.is_handed_over(pipeline, tokenizer) or token_feeds.is_handed_over(pipeline, model)
    has_all_rows = _has_own_size(model) and "ignore_mismatched_sizes" not in model.arguments
    return is_known and not is_handed_over and has_all_rows


def _has_own_size(model: Model) -> bool:
    """Whether no configuration of the script may give a model another number of tokens than its checkpoint has."""
    config = model.config
    if config is None:
        return True
    return "config" not in model.arguments and "vocab_size" not in {*config.arguments, *config.attributes}


def _have_one_vocabulary(pipeline: Pipeline, tokenizer: Tokenizer, model: Model) -> bool:
    """Whether two checkpoints of one kind have as many tokens, as `gpt2` and `distilgpt2` have."""
    known = [token_feeds.certain_facts(pipeline, each) for each in (tokenizer, model)]
    sizes = {(each.model_type, each.vocab_size) for each in known if each is not None and each.vocab_size}
    return len(sizes) == 1 and None not in known


def _resizing(pipeline: Pipeline, tokenizer: Tokenizer, model: Model, location: Location) -> str | None:
    """The statement that resizes, if both have one name and the model is created before the addition."""
    names = [{binding.name for binding in pipeline.names_of(value)} for value in (model, tokenizer)]
    before = model.origin is not None and model.origin.path == location.path and model.origin < location
    if not before or any(len(each) != 1 for each in names):
        return None
    return f"{names[0].pop()}.resize_token_embeddings(len({names[1].pop()}))"
