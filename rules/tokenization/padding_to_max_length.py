"""Every row is padded to a fixed length, although the collator pads each batch.

Padding costs as much compute as text. With `padding="max_length"` short rows are padded to the full length, and the
dynamic padding of the collator has no effect.

## Bad

    def tokenize_pairs(batch):
        pairs = batch["premise"], batch["hypothesis"]
        return tokenizer(*pairs, truncation=True, max_length=128, padding="max_length")  # <- padding-to-max-length

    pairs = raw.map(tokenize_pairs, batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

## Good

    def tokenize_pairs(batch):
        pairs = batch["premise"], batch["hypothesis"]
        return tokenizer(*pairs, truncation=True, max_length=128)

    pairs = raw.map(tokenize_pairs, batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

## When it is fine

Compiled models are fastest with a fixed shape:

    def tokenize_pairs(batch):
        pairs = batch["premise"], batch["hypothesis"]
        return tokenizer(*pairs, truncation=True, max_length=48, padding="max_length")

    pairs = raw.map(tokenize_pairs, batched=True)
    args = TrainingArguments("out", torch_compile=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

No collator pads the batches:

    def tokenize_pairs(batch):
        pairs = batch["premise"], batch["hypothesis"]
        return tokenizer(*pairs, truncation=True, max_length=48, padding="max_length")

    pairs = raw.map(tokenize_pairs, batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"])

Labels with one value per token need a fixed length, too, and most collators do not pad them:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_lines(batch):
        lines = lm_tokenizer(batch["text"], truncation=True, max_length=16, padding="max_length")
        lines["labels"] = lines["input_ids"].copy()
        return lines

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## Fix

Asks first: batches get varying shapes, which a compiled model may not support.

## References

Hugging Face course, chapter 3, "Dynamic padding".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, token_feeds
from lintrain.pipeline.values.data import Collator, Kind, Padding
from lintrain.pipeline.values.python import is_missing
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

NEEDS_FIXED_SHAPE = lazy_pattern(
    r"\b(xla|tpu|torch_xla|optimum|openvino|onnx|cuda_?graphs?|TPU\w*)\b|torch_compile|\.compile\("
)
SCALAR_LABELS = frozenset({Kind.CLASS, Kind.INTEGER, Kind.FLOAT})
"""Kinds of labels with one value per row."""

PADS_LABELS = frozenset({"DataCollatorForSeq2Seq", "DataCollatorForTokenClassification"})
MUCH, LITTLE = 0.5, 0.2
"""Shares of padding that confirm and refute the finding."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the tokenizer call has `padding` as a keyword argument."""

    is_keyword: bool


class PaddingToMaxLength(Rule[Claim]):
    level = Level.NOTE
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            encoding, ids = feed.encoding, feed.columns.get("input_ids")
            if encoding is None or encoding.origin is None or encoding.origin in reported or ids is None:
                continue
            if ids.padding is not Padding.FIXED or not _pads_batches(feed) or "labels" in encoding.columns:
                continue
            if script_text.mentions(pipeline, NEEDS_FIXED_SHAPE):
                continue
            reported.add(encoding.origin)
            length = f"{encoding.max_length} tokens" if encoding.max_length else "a fixed length"
            yield self.finding(
                encoding.origin,
                f"rows are padded to {length}, although the collator pads each batch",
                related=[Related(feed.location, "the collator pads batches here", "batched")],
                help="remove `padding`: the collator pads a batch only to its longest row",
                claim=Claim("padding=" in pipeline.code(encoding.origin).replace(" ", "")),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        batch, split = evidence.batch(), evidence.split("train_dataset")
        ids = split.column("input_ids") if split is not None else None
        if batch is None or ids is None or not ids.lengths or "encoding" not in evidence.locations:
            return
        labels = batch.tensor("labels")
        pads = batch.collator in PADS_LABELS or (
            batch.collator == "DataCollatorWithPadding" and (labels is None or labels.shape[1:] != (ids.lengths[0],))
        )
        is_compiled = any("torch_compile" in each for each in evidence.shortcuts)
        if pads and not is_compiled and ids.lengths[0] == ids.lengths[-1]:
            yield self.finding(
                evidence.locations["encoding"],
                f"rows are padded to {ids.lengths[0]} tokens, although the collator pads each batch",
                help="remove `padding`: the collator pads a batch only to its longest row",
                claim=Claim(is_keyword=False),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None or batch.attended_tokens is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        padding = batch.padding_tokens or 0
        share = padding / max(padding + batch.attended_tokens, 1)
        text = f"{padding} of {padding + batch.attended_tokens} tokens are padding ({share:.0%})"
        if share > MUCH:
            return Verdict.confirmed(text, padding=padding, share=share)
        if share < LITTLE:
            return Verdict.refuted(text, padding=padding, share=share)
        return Verdict.inconclusive(text, share=share)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_keyword:
            return None
        return fixes.Fix.of("remove `padding`", fixes.RemoveArgument(finding.location, "padding"), safe=False)


def _pads_batches(feed: token_feeds.TokenFeed) -> bool:
    """Whether a library's collator pads each batch, and its labels if they are lists."""
    column = feed.columns.get("labels")
    name = feed.collator.name if isinstance(feed.collator, Collator) else ""
    if column is not None and (column.is_masked or not (column.kind in SCALAR_LABELS or name in PADS_LABELS)):
        return False
    if isinstance(feed.collator, Collator):
        return feed.collator.pads is True and "pad_to_multiple_of" not in feed.collator.arguments
    given = feed.run.value("processing_class") if feed.run is not None else None
    return given is not None and is_missing(feed.collator) and not is_missing(given)
