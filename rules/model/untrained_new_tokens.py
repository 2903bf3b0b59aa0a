"""Tokens are added, but only adapters train: the embeddings of the new tokens keep their initial values.

An adapter freezes the embedding with all other weights. The rows that were added for new tokens keep the random or
average values that they were initialized with, so the model cannot learn what the tokens mean. No error appears.

## Bad

    lm_tokenizer.add_tokens(["<question>", "<answer>"])  # <- untrained-new-tokens
    lm_tokenizer.pad_token = "!"
    lm.resize_token_embeddings(len(lm_tokenizer))
    adapted = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"]))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(adapted, args, train_dataset=lines["train"], data_collator=collator)

## Good

    lm_tokenizer.add_tokens(["<question>", "<answer>"])
    lm_tokenizer.pad_token = "!"
    lm.resize_token_embeddings(len(lm_tokenizer))
    adapted = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], modules_to_save=["wte"]))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(adapted, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A padding token is masked and needs no meaning:

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))
    adapted = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"]))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(adapted, args, train_dataset=lines["train"], data_collator=collator)

The tokens and the adapted layers may come from another module:

    from my_project import new_tokens, layers

    lm_tokenizer.add_tokens(new_tokens)
    lm.resize_token_embeddings(len(lm_tokenizer))
    adapted = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules=layers))
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    trainer = Trainer(adapted, args, train_dataset=lines["train"])

## Fix

None: training only the new rows and training the whole embedding are both reasonable.

## References

PEFT documentation, "LoRA", section "Efficiently train tokens alongside LoRA": `trainable_token_indices`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, token_feeds
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values import python
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.tensors import TokenSetting
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, lazy_pattern

TRAINS_EMBEDDING = r"modules_to_save|trainable_token|get_(input|output)_embeddings|embed_tokens|word_embeddings|\bwte\b"
"""Code that may train the embedding, or fill the new rows itself."""

RESIZES = r"resize_token_embeddings\("
KNOWN_TOKENS = lazy_pattern(
    r"<\|.*\|>|<(s|/s|unk|pad|mask|eos|bos)>|\[(PAD|CLS|SEP|MASK|UNK|unused\d+)\]|<(unused|extra_id_|0x)\w*>"
)
MARKUP = lazy_pattern(r"[<\[]\|?[^<>\[\]]+\|?[>\]]")
EMBEDDINGS = lazy_pattern(r"emb|wte|shared|tok|all|\*|\.\+")


class UntrainedNewTokens(Rule):
    level = Level.WARNING
    keywords = "add_"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        adaptations = [event for event in pipeline.acts(Act.ADAPT) if _leaves_embedding(event)]
        if (
            not adaptations
            or script_text.mentions(pipeline, TRAINS_EMBEDDING)
            or not script_text.mentions(pipeline, RESIZES)
        ):
            return
        found: dict[Location, Finding] = {}
        for feed in token_feeds.token_feeds(pipeline):
            adaptation = next((each for each in adaptations if each.subject is feed.model), None)
            for addition in feed.tokenizer.additions if adaptation is not None and feed.tokenizer else ():
                token = _new_token(addition)
                if token is not None and adaptation is not None:
                    found.setdefault(addition.location, self._report(addition.location, token, adaptation))
        yield from found.values()

    def _report(self, location: Location, token: str, adaptation: Event) -> Finding:
        return self.finding(
            location,
            f"the embedding of `{token}` is never trained: only adapters train",
            related=[Related(adaptation.location, "freezes the embedding with all other weights", "adapter")],
            help="list the ids in `trainable_token_indices`, or the embedding in `modules_to_save`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        model, tokenizer = evidence.model, evidence.tokenizer
        if model is None or tokenizer is None or model.rows_before is None or model.embedding_trains is not False:
            return
        added = tokenizer.tokens - model.rows_before
        # A padding token is masked, and needs no meaning.
        added -= tokenizer.pad_id is not None and tokenizer.pad_id >= model.rows_before
        if added > 0 and model.trainable_parameters:
            yield self.finding(
                evidence.location_of("tokens", "resizing", "model"),
                f"the embeddings of {added} new tokens are never trained: only adapters train",
                help="list the ids in `trainable_token_indices`, or the embedding in `modules_to_save`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None or model.embedding_trains is None or model.embedding_rows is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        rows = model.embedding_rows
        if model.embedding_trains:
            return Verdict.refuted(f"the embedding of {rows} tokens is trainable", rows=rows)
        return Verdict.confirmed(f"none of the {rows} rows of the embedding is trainable", rows=rows)


def _leaves_embedding(event: Event) -> bool:
    """Whether an adapter that every run adds to a model certainly excludes its embedding."""
    config = event.details["config"]
    if event.conditions or not isinstance(event.subject, Model) or not isinstance(config, python.LibraryObject):
        return False
    given = config.arguments
    targets = given.get("target_modules", python.Constant(None))
    items = targets.items if isinstance(targets, python.Sequence) and targets.is_complete else []
    names = [python.text_of(item) or "all" for item in items]
    is_plain = bool(names) and not any(EMBEDDINGS.search(name) for name in names)
    is_known = config.path == "peft.LoraConfig" and "**" not in given
    return is_known and (is_plain or python.is_missing(targets) or python.literal(targets) == "all-linear")


def _new_token(addition: TokenSetting) -> str | None:
    """A token with its own meaning that is certainly added, other than padding."""
    if addition.conditions:
        return None
    value = addition.value
    added = value.entries.get("additional_special_tokens") if isinstance(value, python.Mapping) else value
    items: list[python.Value] = (
        added.items if isinstance(added, python.Sequence) else [added] if added is not None else []
    )
    tokens = [each for item in items if isinstance(each := python.literal(item), str)]
    return next((each for each in tokens if MARKUP.fullmatch(each) and not KNOWN_TOKENS.fullmatch(each)), None)
