"""Padding is scored: the labels keep the padding token.

The loss leaves out labels of -100 and nothing else. Labels that are copied from padded tokens, or padded by the
tokenizer themselves, teach the model to write padding after padding: an easy task that makes the loss look lower than
it is, takes its share of every gradient, and most of it where texts are short.

## Bad

    def make_rows(batch):
        rows = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=64)
        rows["labels"] = rows["input_ids"].copy()
        return rows

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)  # <- pad-in-loss
    trainer.train()

In a loop of one's own:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    loss = lm(**batch, labels=batch["input_ids"]).loss  # <- pad-in-loss
    loss.backward()
    optimizer.step()

A collator of one's own that pads, and copies:

    def collate(rows):
        batch = lm_tokenizer([row["text"] for row in rows], truncation=True, padding=True, return_tensors="pt")
        batch["labels"] = batch["input_ids"].clone()
        return batch

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(lm, args, train_dataset=text["train"], data_collator=collate)  # <- pad-in-loss
    trainer.train()

## Good

    def make_rows(batch):
        return lm_tokenizer(batch["text"], truncation=True, max_length=64)

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows, data_collator=collator)
    trainer.train()

In a loop of one's own:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    loss = lm(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)).loss
    loss.backward()
    optimizer.step()

## When it is fine

A collator makes the labels of the tokens, and masks padding:

    def make_rows(batch):
        rows = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=64)
        rows["labels"] = rows["input_ids"].copy()
        return rows

    lm_tokenizer.add_special_tokens({"pad_token": "<|endoftext|>"})
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows, data_collator=collator)
    trainer.train()

The padding is replaced by hand:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[batch["attention_mask"] == 0] = -100
    lm(**batch, labels=labels).loss.backward()

A collator of one's own masks what it padded:

    def collate(rows):
        batch = lm_tokenizer([row["text"] for row in rows], truncation=True, padding=True, return_tensors="pt")
        labels = batch["input_ids"].clone()
        labels[batch["attention_mask"] == 0] = -100
        batch["labels"] = labels
        return batch

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(lm, args, train_dataset=text["train"], data_collator=collate)
    trainer.train()

Tokens that are not padded have nothing to mask:

    ids = lm_tokenizer("one two three four five", return_tensors="pt")["input_ids"]
    lm(input_ids=ids, labels=ids).loss.backward()

## Fix

Safe: -100 is where the mask is 0, and no run means to learn padding. Offered where labels are given to the model as the
tokens that it reads; a collator and masked rows are both reasonable elsewhere.

## References

Transformers documentation, "Causal language modeling"; transformers#6238, #16455, #10046.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import collators, run_data
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Column, ColumnValues, Dataset, Encoding, Kind, Padding
from lintrain.pipeline.values.model import ModelOutput, Task
from lintrain.pipeline.values.python import ABSENT, Sequence, is_missing, text_of
from lintrain.pipeline.values.training import ModelCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

SCORE_TOKENS = frozenset({Task.CAUSAL_LM, Task.SEQ2SEQ_LM})


class PadInLoss(Rule):
    level = Level.WARNING
    keywords = "label"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for call in pipeline.model_calls:
            labels = call.arguments.get("labels")
            if labels is not None and _trains_on_tokens(call) and _is_padded_here(labels.value):
                found.setdefault(labels.location, self._of_call(labels.location, labels.value, code=_masked(labels)))
        yield from found.values()
        for given in run_data.given_datasets(pipeline):
            if _scores_padding(given):
                yield self._of_rows(given)
        for batch in collators.own_batches(pipeline):
            part = batch.parts.get("labels")
            if batch.run.model is not None and batch.run.model.task in SCORE_TOKENS and _is_padded_here(part):
                yield self._of_call(batch.location, part, "data_collator")

    def _of_call(
        self, location: Location, labels: object, subject: str | None = None, *, code: str | None = None
    ) -> Finding:
        owner = labels.dataset if isinstance(labels, ColumnValues) else None
        padded = owner.origin if isinstance(owner, Encoding) else None
        return self.finding(
            location,
            "padding is scored: these labels are padded tokens, none of them -100",
            related=[Related(padded, "padded here", "padded", owner.text)]
            if padded and isinstance(owner, Encoding)
            else [],
            help="set labels to -100 where `attention_mask` is 0",
            subject=subject,
            facts={"code": code},
        )

    def _of_rows(self, given: run_data.Given) -> Finding:
        return self.finding(
            given.argument.location,
            f"padding is scored: {given.text} has padded labels, none of them -100",
            related=run_data.last_map(given.datasets[0], "labels are padded tokens here"),
            help="pad in the collator (DataCollatorForLanguageModeling, DataCollatorForSeq2Seq), which masks padding",
            subject=given.parameter,
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        beside = evidence.loop.alignment if evidence.loop else None
        if beside is not None and beside.padding is not None:
            text = f"{beside.padding} of {beside.scored} scored targets of the loss are padding"
            return (Verdict.confirmed if beside.padding else Verdict.refuted)(
                text, padding=beside.padding, scored=beside.scored
            )
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or targets.padding is None:
            return Verdict.inconclusive("padding cannot be told from text in the labels of the batch")
        text = f"{targets.padding} of {targets.scored} scored labels are padding"
        told = Verdict.confirmed if targets.padding else Verdict.refuted
        return told(text, padding=targets.padding, scored=targets.scored)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of("mask the padding", fixes.Replace(finding.location, code), safe=True)


def _trains_on_tokens(call: ModelCall) -> bool:
    reads_loss = isinstance(call.output, ModelOutput) and "loss" in call.output.reads
    return call.model.task in SCORE_TOKENS and reads_loss and not call.without_grad


def _is_padded_here(labels: object) -> bool:
    """Whether labels are tokens of an encoding of several texts, padded by the tokenizer."""
    if (
        not isinstance(labels, ColumnValues)
        or not isinstance(labels.dataset, Encoding)
        or not _is_unmasked(labels.column)
    ):
        return False
    texts = labels.dataset.inputs
    has_several = labels.dataset.has_several or (isinstance(texts, Sequence) and len(texts.items) > 1)
    return labels.column.padding is Padding.FIXED or (labels.column.padding is Padding.LONGEST and has_several)


def _is_unmasked(column: Column) -> bool:
    return column.kind is Kind.TOKENS and not column.is_masked


def _scores_padding(given: run_data.Given) -> bool:
    """Whether all rows that a run is given have padded labels, and its collator leaves them as they are."""
    model = given.run.model
    if given.parameter != "train_dataset" or model is None or model.task not in SCORE_TOKENS:
        return False
    return run_data.keeps_labels(given.run) and all(_has_padded_labels(dataset) for dataset in given.datasets)


def _has_padded_labels(dataset: Dataset) -> bool:
    """Padded to one length, or to the longest row of each batch that `map` hands over."""
    labels = (dataset.columns or {}).get("labels")
    if labels is None or not _is_unmasked(labels):
        return False
    is_batched = any("batched=True" in made.text for made in run_data.last_map(dataset))
    return labels.padding is Padding.FIXED or (labels.padding is Padding.LONGEST and is_batched)


def _masked(labels: Argument) -> str | None:
    """The labels with -100 for padding, where they are the tokens of an encoding of tensors with its mask."""
    owner = labels.value.dataset if isinstance(labels.value, ColumnValues) else None
    tokens = re.fullmatch(r"""(\w+)(?:\[(["'])input_ids\2\]|(\.)input_ids)""", labels.text)
    if (
        tokens is None
        or not isinstance(owner, Encoding)
        or text_of(owner.arguments.get("return_tensors", ABSENT)) != "pt"
    ):
        return None
    if not is_missing(owner.arguments.get("return_attention_mask", ABSENT)):
        return None
    mask = f"{tokens[1]}.attention_mask" if tokens[3] else f"{tokens[1]}[{tokens[2]}attention_mask{tokens[2]}]"
    return f"{tokens[0]}.masked_fill({mask} == 0, -100)"
