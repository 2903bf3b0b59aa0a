"""Padding is part of the loss: the labels contain the padding token.

The loss ignores labels of -100 and nothing else. With labels that contain the padding token the model also learns to
predict padding after padding. This lowers the reported loss and dominates the gradients if texts are short.

## Bad

    def make_rows(batch):
        rows = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=64)
        rows["labels"] = rows["input_ids"].copy()
        return rows

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)  # <- pad-in-loss
    trainer.train()

In a custom training loop:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    loss = lm(**batch, labels=batch["input_ids"]).loss  # <- pad-in-loss
    loss.backward()
    optimizer.step()

In a custom collator that pads and copies the tokens:

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

In a custom training loop:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    loss = lm(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)).loss
    loss.backward()
    optimizer.step()

## When it is fine

A collator creates the labels from the tokens and masks padding:

    def make_rows(batch):
        rows = lm_tokenizer(batch["text"], truncation=True, padding="max_length", max_length=64)
        rows["labels"] = rows["input_ids"].copy()
        return rows

    lm_tokenizer.add_special_tokens({"pad_token": "<|endoftext|>"})
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows, data_collator=collator)
    trainer.train()

Padding is masked by hand:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    batch = lm_tokenizer(["one", "one two three four"], padding=True, return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[batch["attention_mask"] == 0] = -100
    lm(**batch, labels=labels).loss.backward()

A custom collator masks padding:

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

The losses of all positions are masked before they are averaged:

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.head = nn.Embedding(60, 16), nn.Linear(16, 60)

        def forward(self, ids):
            return self.head(self.tokens(ids))

    lengths = torch.randint(4, 9, (64, 1))
    ids = torch.randint(1, 60, (64, 10)) * (torch.arange(10) < lengths)
    tagger = Tagger()
    optimizer = torch.optim.AdamW(tagger.parameters(), lr=1e-3)
    for (x,) in DataLoader(TensorDataset(ids), batch_size=16):
        targets = x[:, 1:]
        each = F.cross_entropy(tagger(x[:, :-1]).transpose(1, 2), targets, reduction="none")
        loss = (each * (targets != 0)).sum() / (targets != 0).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

Tokens without padding have nothing to mask:

    ids = lm_tokenizer("one two three four five", return_tensors="pt")["input_ids"]
    lm(input_ids=ids, labels=ids).loss.backward()

## Fix

Safe: only labels of padding become -100. Offered if the model gets its input tokens as labels. Elsewhere a collator and
masked rows are both reasonable.

## References

Transformers documentation, "Causal language modeling"; transformers#6238, #16455, #10046.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import collators, gradients, padded_labels, padded_targets, run_data, unmasked_labels
from lintrain.pipeline.values import data, model, training
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import ABSENT, Sequence, is_missing, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

TOKEN_TASKS = frozenset({model.Task.CAUSAL_LM, model.Task.SEQ2SEQ_LM})
"""Tasks with one label per token."""


OWN_COLLATOR = (0, 18)
"""The version of trl from which SFTTrainer certainly has a collator of its own, which copies tokens to labels."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the labels with padding masked; None without a fix."""

    code: str | None = None


class PadInLoss(Rule[Claim]):
    level = Level.WARNING
    keywords = "label|CrossEntropyLoss|cross_entropy"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for call in pipeline.model_calls:
            labels = call.arguments.get("labels")
            if labels is not None and _trains_on_tokens(call) and _is_padded_here(labels.value):
                found.setdefault(
                    labels.location, self._report_call(labels.location, labels.value, code=_masked(labels))
                )
        known = {call.arguments["labels"].location for call in pipeline.model_calls if "labels" in call.arguments}
        for same in padded_labels.same_labels(pipeline) if not found else ():
            if same.is_whole and same.location in known:
                continue
            found.setdefault(same.location, self._report_same(same))
        for targets in padded_targets.padded_targets(pipeline) if not found else ():
            found.setdefault(targets.location, self._report_targets(targets))
        yield from found.values()
        collated = list(self._collated(pipeline))
        yield from collated
        for padded in unmasked_labels.padded_by_collators(pipeline.source) if pipeline.runs else ():
            if padded.location not in found and not (padded.is_encoding and collated):
                yield self._report_padded(padded)
        for assigned in padded_labels.image_labels(pipeline.source):
            yield self.finding(
                assigned,
                "the tokens that stand for images are part of the loss",
                help="mask them: `labels[labels == model.config.image_token_id] = -100`",
                subject="labels",
            )
        for given in run_data.given_datasets(pipeline):
            if _scores_padding(given):
                yield self._report_rows(given)
        if gradients.is_since(pipeline.targets, "trl", OWN_COLLATOR):
            yield from (self._report_sft(run) for run in pipeline.runs if _learns_padding(run))

    def _collated(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The batches of collators that the interpreter read."""
        for batch in collators.own_batches(pipeline):
            part = batch.parts.get("labels")
            if batch.run.model is not None and batch.run.model.task in TOKEN_TASKS and _is_padded_here(part):
                yield self._report_call(batch.location, part, "data_collator")

    def _report_call(
        self, location: Location, labels: object, subject: str | None = None, *, code: str | None = None
    ) -> Finding[Claim]:
        owner = labels.dataset if isinstance(labels, data.ColumnValues) else None
        padded = owner.origin if isinstance(owner, data.Encoding) else None
        return self.finding(
            location,
            "these labels contain padding tokens, which the loss does not ignore",
            related=[Related(padded, "padded here", "padded", owner.text)]
            if padded and isinstance(owner, data.Encoding)
            else [],
            help="set labels to -100 where `attention_mask` is 0",
            subject=subject,
            claim=Claim(code),
        )

    def _report_padded(self, found: unmasked_labels.PaddedLabels) -> Finding[Claim]:
        return self.finding(
            found.location,
            "these labels contain padding tokens, which the loss does not ignore",
            related=[Related(found.padded, "padded here", "padded")],
            help="set labels to -100 where `attention_mask` is 0: `masked_fill(mask.ne(1), -100)`",
            subject="data_collator",
            claim=Claim(None),
        )

    def _report_same(self, same: padded_labels.SameLabels) -> Finding[Claim]:
        return self.finding(
            same.location,
            "these labels are the inputs with their padding, which the loss does not ignore",
            related=[Related(same.mask, "the mask of the padding", "mask")],
            help="set labels to -100 where `attention_mask` is 0",
            claim=Claim(None),
        )

    def _report_targets(self, targets: padded_targets.PaddedTargets) -> Finding[Claim]:
        made = [Related(targets.criterion, "the loss is made here", "loss")]
        if targets.criterion.holds(targets.location):
            made = []
        return self.finding(
            targets.location,
            "these targets contain padding tokens, which the loss does not ignore",
            related=[
                *made,
                *([Related(targets.padding, "the number of the padding", "padding")] if targets.padding else []),
            ],
            help="give the loss the number of the padding: `ignore_index=pad_id`",
            claim=Claim(None),
        )

    def _report_rows(self, given: run_data.Given) -> Finding[Claim]:
        return self.finding(
            given.argument.location,
            f"labels of {given.text} contain padding tokens, which the loss does not ignore",
            related=run_data.last_map(given.datasets[0], "labels are padded tokens here"),
            help="pad in a collator that masks padding: `DataCollatorForLanguageModeling` or `DataCollatorForSeq2Seq`",
            subject=given.parameter,
        )

    def _report_sft(self, run: training.TrainerRun) -> Finding[Claim]:
        rows = run.dataset("train_dataset")
        return self.finding(
            run.arguments["train_dataset"].location,
            f"these rows are padded already, and {run.name} trains on all their tokens",
            related=run_data.last_map(rows, "padded here") if rows is not None else [],
            help="leave out the padding: the trainer pads each batch, and masks that padding",
            subject="train_dataset",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loss = next((loss for loss in evidence.loop.losses if loss.alignment), None) if evidence.loop else None
        location = loss.location if loss is not None else evidence.location
        # Labels of other tasks are classes, and one of them has the number of the padding token.
        is_of_tokens = evidence.model is not None and evidence.model.task in {"CausalLM", "ConditionalGeneration"}
        if location is not None and evidence.trainer and (loss is not None or is_of_tokens):
            yield self._report_call(location, None)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        alignment, batch = evidence.loop.alignment if evidence.loop else None, evidence.batch()
        if alignment is not None and alignment.padding is not None:
            text = f"{alignment.padding} of {alignment.scored} targets in the loss are padding"
            if not alignment.padding and batch is not None and batch.padding_tokens == 0:
                return Verdict.inconclusive(f"{text}, but no row of the measured batch is padded")
            verdict = Verdict.confirmed if alignment.padding else Verdict.refuted
            return verdict(text, padding=alignment.padding, scored=alignment.scored)
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or targets.padding is None:
            return Verdict.inconclusive("the labels of the batch do not show which of them are padding")
        text = f"{targets.padding} of {targets.scored} labels in the loss are padding"
        verdict = Verdict.confirmed if targets.padding else Verdict.refuted
        return verdict(text, padding=targets.padding, scored=targets.scored)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        return fixes.Fix.of("mask the padding", fixes.Replace(finding.location, code), safe=True)


def _trains_on_tokens(call: training.ModelCall) -> bool:
    reads_loss = isinstance(call.output, model.ModelOutput) and "loss" in call.output.reads
    return call.model.task in TOKEN_TASKS and reads_loss and not call.without_grad


def _is_padded_here(labels: object) -> bool:
    """Whether labels are the tokens of several texts, padded by the tokenizer."""
    if (
        not isinstance(labels, data.ColumnValues)
        or not isinstance(labels.dataset, data.Encoding)
        or not _is_unmasked(labels.column)
    ):
        return False
    texts = labels.dataset.inputs
    has_several = labels.dataset.has_several or (isinstance(texts, Sequence) and len(texts.items) > 1)
    padding = labels.column.padding
    return padding is data.Padding.FIXED or (padding is data.Padding.LONGEST and has_several)


def _is_unmasked(column: data.Column) -> bool:
    return column.kind is data.Kind.TOKENS and not column.is_masked


def _scores_padding(given: run_data.Given) -> bool:
    """Whether all rows of a run have padded labels, and its collator does not change them."""
    trained = given.run.model
    if given.parameter != "train_dataset" or trained is None or trained.task not in TOKEN_TASKS:
        return False
    return run_data.keeps_labels(given.run) and all(_has_padded_labels(dataset) for dataset in given.datasets)


def _learns_padding(run: training.TrainerRun) -> bool:
    """Whether SFTTrainer gets rows that are tokenized and padded; its collator masks no padding but its own."""
    rows = run.dataset("train_dataset")
    if run.path != "trl.SFTTrainer" or rows is None or not run_data.is_default_collator(run.collator) or run.overrides:
        return False
    columns = rows.columns or {}
    ids, labels = columns.get("input_ids"), columns.get("labels")
    is_scored = labels is None or (_is_unmasked(labels) and labels.padding is data.Padding.FIXED)
    is_whole = not {"completion_mask", "assistant_masks"} & columns.keys() and rows.columns is not None
    return ids is not None and ids.padding is data.Padding.FIXED and is_scored and is_whole


def _has_padded_labels(dataset: data.Dataset) -> bool:
    """Whether labels are padded to a fixed length, or to the longest row of each batch of `map`."""
    labels = (dataset.columns or {}).get("labels")
    if labels is None or not _is_unmasked(labels):
        return False
    is_batched = any("batched=True" in made.text for made in run_data.last_map(dataset))
    return labels.padding is data.Padding.FIXED or (labels.padding is data.Padding.LONGEST and is_batched)


def _masked(labels: Argument) -> str | None:
    """The code of labels with -100 for padding, if they are PyTorch tensors of a tokenizer call with its mask."""
    owner = labels.value.dataset if isinstance(labels.value, data.ColumnValues) else None
    tokens = re.fullmatch(r"""(\w+)(?:\[(["'])input_ids\2\]|(\.)input_ids)""", labels.text)
    if (
        tokens is None
        or not isinstance(owner, data.Encoding)
        or text_of(owner.arguments.get("return_tensors", ABSENT)) != "pt"
    ):
        return None
    if not is_missing(owner.arguments.get("return_attention_mask", ABSENT)):
        return None
    mask = f"{tokens[1]}.attention_mask" if tokens[3] else f"{tokens[1]}[{tokens[2]}attention_mask{tokens[2]}]"
    return f"{tokens[0]}.masked_fill({mask} == 0, -100)"
