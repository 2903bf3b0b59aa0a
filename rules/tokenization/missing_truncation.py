"""Rows are not truncated to the model's number of positions, or to the length that they are padded to.

A model with learned positions (BERT, RoBERTa, GPT-2) raises a shape or index error for the first longer row, possibly
in the middle of an epoch. On a GPU the error shows neither the row nor the cause.

## Bad

    pages = text.map(lambda batch: {"text": [" ".join(batch["text"])]}, batched=True, batch_size=80)

    def tokenize_pages(batch):
        return tokenizer(batch["text"])  # <- missing-truncation

    pages = pages.map(tokenize_pages, batched=True, remove_columns=["text"])
    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    collator = DataCollatorForLanguageModeling(tokenizer)
    trainer = Trainer(model, args, train_dataset=pages["train"], data_collator=collator)
    # raises must match the size of tensor b (512)

## Good

    pages = text.map(lambda batch: {"text": [" ".join(batch["text"])]}, batched=True, batch_size=80)

    def tokenize_pages(batch):
        return tokenizer(batch["text"], truncation=True)

    pages = pages.map(tokenize_pages, batched=True, remove_columns=["text"])
    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    collator = DataCollatorForLanguageModeling(tokenizer)
    trainer = Trainer(model, args, train_dataset=pages["train"], data_collator=collator)

## When it is fine

Texts that are written in the code are known to be short:

    empty = tokenizer([""], padding="max_length", max_length=32)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Sentences of a well-known dataset are far shorter than the limit:

    pairs = raw.map(lambda batch: tokenizer(batch["premise"], batch["hypothesis"]), batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

Rows are split into blocks, or filtered by their length, after tokenization:

    def cut_into_blocks(batch):
        ids = sum(batch["input_ids"], [])
        return {"input_ids": [ids[start : start + 64] for start in range(0, len(ids), 64)]}

    lines = text.map(lambda batch: tokenizer(batch["text"]), batched=True, remove_columns=["text"])
    blocks = lines.remove_columns(["attention_mask"]).map(cut_into_blocks, batched=True)
    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    trainer = Trainer(
        model, args, train_dataset=blocks["train"], data_collator=DataCollatorForLanguageModeling(tokenizer)
    )

A `max_length` without padding truncates by itself:

    lines = text.map(lambda batch: tokenizer(batch["text"], max_length=128), batched=True, remove_columns=["text"])
    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    trainer = Trainer(
        model, args, train_dataset=lines["train"], data_collator=DataCollatorForLanguageModeling(tokenizer)
    )

Relative and rotary positions have no such limit:

    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = text.map(lambda batch: words(batch["text"], text_target=batch["text"]), batched=True,
                     remove_columns=["text"])
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments("out"),
        train_dataset=pairs["train"],
        data_collator=DataCollatorForSeq2Seq(words),
    )

## Fix

Asks first: truncation removes text.

## References

transformers#2446, transformers#3902, transformers#14384.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import token_feeds
from lintrain.pipeline.values.python import is_missing
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The number of tokens that rows are padded to, if it is a literal; None for the positions of the model.

    `argument` is where the call says that nothing is truncated.
    """

    max_length: int | None = None
    argument: Location | None = None


class MissingTruncation(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer|DataLoader|max_length"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(token_feeds.padded_only(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from self._beyond_positions(pipeline)
        for call in token_feeds.padded_only(pipeline.source):
            length = int(call.max_length) if call.max_length.isdecimal() else None
            yield self.finding(
                call.location,
                "`max_length` is ignored here: rows are padded to the longest one, and none is truncated"
                if call.to_longest
                else "rows are padded to `max_length`, but longer ones are not truncated",
                why="`max_length` truncates only without padding: with it, longer rows keep all their tokens.",
                help="pass `truncation=True`",
                claim=Claim(length, call.untruncated),
            )

    def _beyond_positions(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            encoding, ids = feed.encoding, feed.columns.get("input_ids")
            if encoding is None or encoding.origin is None or encoding.origin in reported or ids is None:
                continue
            limit, name = token_feeds.learned_positions(pipeline, feed)
            if ids.truncated is not False or limit is None or token_feeds.may_be_short(feed.dataset) or _is_split(feed):
                continue
            reported.add(encoding.origin)
            yield self.finding(
                encoding.origin,
                f"rows are not truncated to the {limit} positions of `{name}`",
                related=[Related(feed.location, "the rows are read here", "read")],
                help="pass `truncation=True`, or split long texts into several rows",
                claim=Claim(),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model = evidence.model
        # Rotary positions have no end, and a collator may cut what is too long.
        if model is None or model.rotary or "encoding" not in evidence.locations or evidence.passed("forward"):
            return
        # What is cut off, or short before it is padded, is not the reason.
        if evidence.encodings and all(each.cut or each.limit <= (model.positions or 0) for each in evidence.encodings):
            return
        yield self.finding(
            evidence.locations["encoding"],
            f"rows are not truncated to the {model.positions} positions of the model",
            help="pass `truncation=True`, or split long texts into several rows",
            claim=Claim(),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        limit = evidence.model.positions if evidence.model else None
        what = "the model has {} positions"
        if finding.claim is not None and finding.claim.max_length is not None:
            limit, what = finding.claim.max_length, "`max_length` is {}"
        columns = [column for split in evidence.splits if (column := split.column("input_ids")) and column.lengths]
        if limit is None or not columns:
            return Verdict.inconclusive("the model's number of positions or the length of its inputs is unknown")
        longest = max(column.lengths[-1] for column in columns)
        rows = sum(column.rows_read for column in columns)
        text = f"the longest of {rows} rows has {longest} tokens, {what.format(limit)}"
        if longest > limit:
            return Verdict.confirmed(text, longest=longest, positions=limit)
        return Verdict.refuted(text, longest=longest, positions=limit)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix:
        argument = finding.claim.argument if finding.claim else None
        edit = (
            fixes.Replace(argument, "truncation=True")
            if argument
            else fixes.AddArgument(finding.location, "truncation", "True")
        )
        return fixes.Fix.of("pass `truncation=True`", edit, safe=False)


def _is_split(feed: token_feeds.TokenFeed) -> bool:
    """Whether rows are filtered, perhaps by their length, or split into several."""
    encoding = feed.encoding
    overflow = encoding.arguments.get("return_overflowing_tokens") if encoding else None
    is_filtered = feed.dataset is not None and "filter" in feed.dataset.operations
    return is_filtered or (overflow is not None and not is_missing(overflow)) or bool(encoding and encoding.depth)
