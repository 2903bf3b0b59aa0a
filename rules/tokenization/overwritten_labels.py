"""The dataset masks labels with -100, but the collator replaces the labels.

`DataCollatorForLanguageModeling` replaces the labels of the dataset with the input ids. The model is also trained on
the masked tokens, such as the prompt. No error is raised.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def mask_premise(row):
        pair = f"{row['premise']} {row['hypothesis']}"
        ids = lm_tokenizer(pair, truncation=True, padding="max_length", max_length=48)
        kept = [position >= 6 and attended for position, attended in enumerate(ids["attention_mask"])]
        labels = [token if keep else -100 for token, keep in zip(ids["input_ids"], kept)]
        return {**ids, "labels": labels}

    examples = raw.map(mask_premise, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)  # <- overwritten-labels

## Good

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def mask_premise(row):
        pair = f"{row['premise']} {row['hypothesis']}"
        ids = lm_tokenizer(pair, truncation=True, padding="max_length", max_length=48)
        kept = [position >= 6 and attended for position, attended in enumerate(ids["attention_mask"])]
        labels = [token if keep else -100 for token, keep in zip(ids["input_ids"], kept)]
        return {**ids, "labels": labels}

    examples = raw.map(mask_premise, remove_columns=raw["train"].column_names)
    collator = DataCollatorForSeq2Seq(lm_tokenizer, padding=True)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## When it is fine

Labels that equal the inputs do not change:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def repeat_inputs(batch):
        ids = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=48)
        return {**ids, "labels": ids["input_ids"].copy()}

    lines = text.map(repeat_inputs, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

The collator masks padding, too:

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def mask_padding(batch):
        ids = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=48)
        ids["labels"] = [[x if x != lm_tokenizer.pad_token_id else -100 for x in row] for row in ids["input_ids"]]
        return ids

    lines = text.map(mask_padding, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

A custom collator may keep the labels:

    class KeepLabels(DataCollatorForLanguageModeling):
        def torch_call(self, examples):
            return default_data_collator(examples)

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def mask_start(batch):
        ids = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=48)
        return {**ids, "labels": [[-100] * 6 + row[6:] for row in ids["input_ids"]]}

    lines = text.map(mask_start, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=KeepLabels(lm_tokenizer, mlm=False))

## Fix

Asks first: the loss then covers other tokens.

## References

Transformers documentation, `DataCollatorForLanguageModeling` and `DataCollatorForSeq2Seq`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, expressions, run_data, token_feeds
from lintrain.pipeline.values.data import Collator
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of a collator that keeps the labels; None without a fix."""

    code: str | None


class OverwrittenLabels(Rule[Claim]):
    level = Level.ERROR
    keywords = "DataCollator"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            labels, collator = feed.columns.get("labels"), feed.collator
            if labels is None or not labels.is_masked or feed.location in reported:
                continue
            # mlm-on-causal-model reports a collator that masks words.
            if not isinstance(collator, Collator) or collators.masks_words(collator) is not False:
                continue
            if _masks_padding(pipeline):
                return
            reported.add(feed.location)
            related = run_data.last_map(feed.dataset, "labels are masked with -100 here") if feed.dataset else ()
            made = (
                [Related(collator.origin, "replaces the labels with the inputs", "collator")] if collator.origin else []
            )
            yield self.finding(
                feed.location,
                "the collator replaces labels that the dataset masks with -100",
                related=[*related, *made],
                help="use `DataCollatorForSeq2Seq(tokenizer, padding=True)`, which keeps the labels",
                claim=Claim(_keeping_collator(pipeline, collator)),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        batch, split = evidence.batch(), evidence.split("train_dataset")
        seen = batch.labels if batch is not None else None
        # Labels that only leave out padding are made again just so.
        if split is not None and split.masked and seen is not None and seen.copied == seen.supervised:
            yield self.finding(
                evidence.location,
                "the collator replaces labels that the dataset masks with -100",
                help="use `DataCollatorForSeq2Seq(tokenizer, padding=True)`, which keeps the labels",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        batch, split = evidence.batch(), evidence.split("train_dataset")
        column = split.column("labels") if split else None
        if batch is None or batch.labels is None or column is None:
            return Verdict.inconclusive(
                evidence.not_reached("batch") if batch is None else "the dataset has no `labels`"
            )
        if column.minimum != IGNORED:
            return Verdict.inconclusive("no label of the dataset is -100")
        seen = batch.labels
        scored = seen.supervised - seen.pad_supervised
        text = f"the dataset masks labels, and {scored} of {seen.attended} attended tokens in the batches have a label"
        if scored >= seen.attended:
            return Verdict.confirmed(text, scored=scored, attended=seen.attended)
        return Verdict.refuted(text, scored=scored, attended=seen.attended)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, made = finding.claim, finding.with_role("collator")
        if claim is None or claim.code is None or not made:
            return None
        edits = fixes.Replace(made[0].location, claim.code), fixes.AddImport("transformers", "DataCollatorForSeq2Seq")
        return fixes.Fix.of("use `DataCollatorForSeq2Seq`", *edits, safe=False)


def _masks_padding(pipeline: Pipeline) -> bool:
    """Whether the script masks padding, as the collator does: then it may mask nothing else."""
    lines = [line for source in pipeline.sources.values() for line in source.text.splitlines()]
    is_masked = any(str(IGNORED) in line and ("pad" in line or "attention_mask" in line) for line in lines)
    return is_masked or any(test.token.kind == "pad" for test in pipeline.token_tests)


def _keeping_collator(pipeline: Pipeline, collator: Collator) -> str | None:
    """The code of a collator that pads tokens and labels, with the same tokenizer."""
    if collator.origin is None:
        return None
    call = expressions.call_at(pipeline, collator.origin)
    if call is None or not set(collator.arguments) <= {"tokenizer", "mlm"}:
        return None
    tokenizer = call.arguments[0] if call.arguments else call.keywords.get("tokenizer")
    return f"DataCollatorForSeq2Seq({tokenizer.written_code}, padding=True)" if tokenizer else None
