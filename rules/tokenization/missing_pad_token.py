"""The tokenizer is used for padding, but has no padding token.

The tokenizers of GPT-2 and of the base models of Llama and Mistral have no padding token. The first call that pads
raises a ValueError, even for a single row or rows of equal length.

## Bad

    words = AutoTokenizer.from_pretrained("gpt2")
    writer = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)

    def tokenize(batch):
        return words(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize, batched=True)
    collator = DataCollatorWithPadding(words)  # <- missing-pad-token
    trainer = Trainer(writer, args, train_dataset=pairs["train"], data_collator=collator)
    # raises ValueError: Asking to pad but the tokenizer does not have a padding token

With a model that is created later:

    def tokenize_pairs(batch):
        return lm_tokenizer(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize_pairs, batched=True)
    collator = DataCollatorWithPadding(lm_tokenizer)  # <- missing-pad-token
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)
    # raises ValueError: Asking to pad but the tokenizer does not have a padding token

With a tokenizer call that pads:

    lm_tokenizer = AutoTokenizer.from_pretrained("gpt2")
    lm = AutoModelForCausalLM.from_pretrained("gpt2")

    def tokenize_lines(batch):
        return lm_tokenizer(batch["text"], truncation=True, padding=True, max_length=32)  # <- missing-pad-token

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    # raises ValueError: Asking to pad but the tokenizer does not have a padding token

## Good

    words = AutoTokenizer.from_pretrained("gpt2")
    writer = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    words.add_special_tokens({"pad_token": "<|pad|>"})
    writer.resize_token_embeddings(len(words))
    writer.config.pad_token_id = words.pad_token_id

    def tokenize(batch):
        return words(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize, batched=True)
    collator = DataCollatorWithPadding(words)
    trainer = Trainer(writer, args, train_dataset=pairs["train"], data_collator=collator)

With a model that is created later:

    def tokenize_pairs(batch):
        return lm_tokenizer(batch["premise"], batch["hypothesis"], truncation=True)

    pairs = raw.map(tokenize_pairs, batched=True)
    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    collator = DataCollatorWithPadding(lm_tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    model.resize_token_embeddings(len(lm_tokenizer))
    model.config.pad_token_id = lm_tokenizer.pad_token_id
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

With a tokenizer call that pads:

    lm_tokenizer = AutoTokenizer.from_pretrained("gpt2")
    lm = AutoModelForCausalLM.from_pretrained("gpt2")
    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    lm.resize_token_embeddings(len(lm_tokenizer))
    lm.config.pad_token_id = lm_tokenizer.pad_token_id

    def tokenize_lines(batch):
        return lm_tokenizer(batch["text"], truncation=True, padding=True, max_length=32)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A checkpoint from the command line may have a padding token:

    import sys

    lm_tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "distilbert-base-uncased")
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer))

Other code may add a padding token:

    from my_project import prepare_tokenizer

    prepare_tokenizer(lm_tokenizer)
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], padding=True), batched=True)

A branch may be for other tokenizers:

    def encode(words, message):
        if hasattr(words, "image_processor"):
            return words(message, padding=True)
        return words(message)

    lines = text.map(lambda row: encode(lm_tokenizer, row["text"]), remove_columns=["text"])
    args = TrainingArguments("out", per_device_train_batch_size=1)
    lines = lines.map(lambda row: {"labels": row["input_ids"]})
    trainer = Trainer(lm, args, train_dataset=lines["train"].select([1]))

Blocks of equal length need no padding:

    lm_tokenizer = AutoTokenizer.from_pretrained("gpt2")
    blocks = text.map(lambda batch: {"input_ids": [[5, 6, 7]] * 4, "labels": [[5, 6, 7]] * 4}, batched=True,
                      batch_size=None, remove_columns=["text"])
    trainer = Trainer(lm, args, train_dataset=blocks["train"], data_collator=default_data_collator)

## Fix

Asks first: the embedding gets a new row, so older checkpoints no longer load. Offered if one tokenizer and one model
are created in the same block.

## References

transformers#9785, transformers#2630.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, expressions, script_text, token_feeds
from lintrain.pipeline import blocks
from lintrain.pipeline.values.data import Dataset, Padding, Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import UNKNOWN, Value, literal, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

WITHOUT_PAD = frozenset({"gpt2", "gpt_neo", "gptj", "gpt_neox"})
"""Model types whose vocabularies have none of these tokens."""

PAD_TEXTS = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")
ADDS = r"add_tokens|add_special_tokens"

NO_TOKEN = "Asking to pad but the tokenizer does not have a padding token"


@dataclass(frozen=True, slots=True)
class Claim:
    """The statements that add a padding token; None without a fix."""

    statements: str | None


class MissingPadToken(Rule[Claim]):
    level = Level.ERROR
    keywords = "okeniz|rocessor"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for tokenizer in pipeline.tokenizers:
            yield from self._unknown_text(pipeline, tokenizer)
        for tokenizer in pipeline.tokenizers:
            location = min(_padded_at(pipeline, tokenizer), default=None)
            if (
                location is None
                or location in reported
                or _may_have_one(tokenizer)
                or not token_feeds.lacks_pad(pipeline, tokenizer)
            ):
                continue
            reported.add(location)
            made = [Related(tokenizer.origin, "created here, without a padding token")] if tokenizer.origin else []
            last, statements = _addition(pipeline, tokenizer, location) or (None, None)
            yield self.finding(
                location,
                f"the tokenizer of `{text_of(tokenizer.checkpoint)}` has no padding token",
                related=[
                    *made,
                    *([Related(last, "tokenizer and model exist after this line", "last")] if last else []),
                ],
                help="add one with `add_special_tokens` and resize the embeddings, or use an unused token",
                claim=Claim(statements),
            )

    def _unknown_text(self, pipeline: Pipeline, tokenizer: Tokenizer) -> Iterator[Finding[Claim]]:
        """`tokenizer.pad_token = "[PAD]"` names a token and adds none."""
        facts = token_feeds.certain_facts(pipeline, tokenizer)
        name = text_of(tokenizer.attributes.get("pad_token", UNKNOWN))
        is_unknown = facts is not None and facts.model_type in WITHOUT_PAD and name in PAD_TEXTS
        set_at = [each.location for each in tokenizer.settings if each.name == "pad_token" and not each.conditions]
        if is_unknown and set_at and not tokenizer.additions and not script_text.mentions(pipeline, ADDS):
            yield self.finding(
                set_at[-1],
                f"`{name}` is not in the vocabulary: setting it adds no token",
                help=f'add it: `add_special_tokens({{"pad_token": "{name}"}})`, and resize the embeddings',
                subject="pad_token",
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.failed_with(NO_TOKEN) is not None:
            yield self.finding(
                evidence.location_of_failure("collator"),
                "the tokenizer is to pad, but has no padding token",
                help="set one: `tokenizer.pad_token = tokenizer.eos_token`, or add a new one",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NO_TOKEN)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{NO_TOKEN}`")
        tokenizer = evidence.tokenizer
        if tokenizer is None:
            return Verdict.inconclusive("the tokenizer of the run is unknown")
        if tokenizer.pad_id is not None:
            return Verdict.refuted(f"the tokenizer pads with id {tokenizer.pad_id}", pad_id=tokenizer.pad_id)
        return Verdict.inconclusive("the tokenizer has no padding token, and no batch was padded")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, last = finding.claim, finding.with_role("last")
        if claim is None or claim.statements is None or not last:
            return None
        return fixes.Fix.of("add a padding token", fixes.InsertAfter(last[0].location, claim.statements), safe=False)


def _padded_at(pipeline: Pipeline, tokenizer: Tokenizer) -> list[Location]:
    """The locations where this tokenizer certainly pads: its own calls, and the collators that use it."""
    return pipeline.cached(_paddings, pipeline).get(id(tokenizer), [])


def _paddings(pipeline: Pipeline, _: Pipeline) -> dict[int, list[Location]]:
    """The locations where each tokenizer pads, by its identity."""
    found = dict[int, list[Location]]()
    for encoding in pipeline.encodings:
        pads = encoding.padding in {Padding.LONGEST, Padding.FIXED}
        tokenizer = encoding.tokenizer
        if pads and encoding.origin and isinstance(tokenizer, Tokenizer) and encoding.depth <= tokenizer.depth:
            found.setdefault(id(tokenizer), []).append(encoding.origin)
    for collation in collators.collations(pipeline):
        collator = collation.collator
        # A collator that masks words fails earlier without a mask token, which mlm-on-causal-model reports.
        pads = collator is None or (collator.pads is True and not collators.masks_words(collator))
        if pads and collation.tokenizer is not None and not _has_one_length(collation.dataset):
            location = (collator.origin if collator else None) or collation.location
            found.setdefault(id(collation.tokenizer), []).append(location)
    return found


def _has_one_length(dataset: Value) -> bool:
    """Whether the rows are blocks of one length, as tensors: those are stacked, and nothing pads them."""
    return isinstance(dataset, Dataset) and bool(dataset.steps) and dataset.steps[0].operation == "TextDataset"


def _may_have_one(tokenizer: Tokenizer) -> bool:
    """Whether it is a chat model: such checkpoints were published with and without a padding token."""
    name = literal(tokenizer.checkpoint)
    return isinstance(name, str) and ("instruct" in name.lower() or "chat" in name.lower())


def _addition(pipeline: Pipeline, tokenizer: Tokenizer, padded: Location) -> tuple[Location, str] | None:
    """The statements that add a padding token and the location to insert them after; None without a fix."""
    if len(pipeline.tokenizers) != 1 or len(pipeline.models) != 1 or tokenizer.origin is None:
        return None
    (model,) = pipeline.models
    names = [{binding.name for binding in pipeline.names_of(value)} for value in (tokenizer, model)]
    if (
        model.origin is None
        or any(len(each) != 1 for each in names)
        or not _are_in_one_block(pipeline, tokenizer, model)
    ):
        return None
    own, target = (each.pop() for each in names)
    last = max(tokenizer.origin, model.origin)
    if f"{own}{target}".isidentifier() and last < padded and "resize_token_embeddings" not in pipeline.source.text:
        lines = (
            f'{own}.add_special_tokens({{"pad_token": "<|pad|>"}})',
            f"{target}.resize_token_embeddings(len({own}))",
        )
        return last, "\n".join([*lines, f"{target}.config.pad_token_id = {own}.pad_token_id"])
    return None


def _are_in_one_block(pipeline: Pipeline, tokenizer: Tokenizer, model: Model) -> bool:
    """Whether both are created in one block by separate statements, with the tokenizer unused in between."""
    assert tokenizer.origin is not None
    assert model.origin is not None
    if not blocks.is_one_scope(pipeline, tokenizer.origin, model.origin):
        return False
    one, other = (expressions.assignment_at(pipeline, origin) for origin in (tokenizer.origin, model.origin))
    between = blocks.names_between(pipeline, tokenizer.origin, model.origin)
    return one is not None and other is not None and between is not None and one.targets[0].code not in between
