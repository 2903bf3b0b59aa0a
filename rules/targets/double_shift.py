"""Labels are shifted by one token, and the model shifts them again.

Causal language models of transformers shift the labels themselves: they expect `labels` equal to `input_ids`. With
shifted labels the model learns to predict the token after the next one. The loss falls as usual, and the generated text
is meaningless.

## Bad

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    loss = lm(input_ids=ids[:, :-1], labels=ids[:, 1:]).loss  # <- double-shift
    loss.backward()
    optimizer.step()

In a preprocessing function:

    def make_rows(batch):
        tokens = lm_tokenizer(batch["text"], truncation=True, max_length=32, padding="max_length")["input_ids"]
        return {"input_ids": [row[:-1] for row in tokens], "labels": [row[1:] for row in tokens]}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)  # <- double-shift
    trainer.train()

In a custom collator:

    def collate(rows):
        batch = lm_tokenizer([row["text"] for row in rows], truncation=True, padding=True, return_tensors="pt")
        return {"input_ids": batch["input_ids"][:, :-1], "labels": batch["input_ids"][:, 1:]}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(lm, args, train_dataset=text["train"], data_collator=collate)  # <- double-shift
    trainer.train()

## Good

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    loss = lm(input_ids=ids[:, :-1], labels=ids[:, :-1]).loss
    loss.backward()
    optimizer.step()

In a preprocessing function:

    def make_rows(batch):
        tokens = lm_tokenizer(batch["text"], truncation=True, max_length=32, padding="max_length")
        pairs = zip(tokens["input_ids"], tokens["attention_mask"])
        labels = [[token if kept else -100 for token, kept in zip(*pair)] for pair in pairs]
        return {"input_ids": tokens["input_ids"], "labels": labels}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)
    trainer.train()

## When it is fine

A custom loss on the logits needs shifted labels:

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    logits = lm(input_ids=ids[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()

A custom network shifts nothing:

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60000, 8)
            self.head = nn.Linear(8, 60000)

        def forward(self, ids, labels):
            return F.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), labels.flatten())

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    Tiny()(ids[:, :-1], labels=ids[:, 1:]).backward()

The labels are the input tokens:

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    lm(input_ids=ids[:, :-2], labels=ids[:, :-2]).loss.backward()

## Fix

Safe: the model shifts the labels itself, so shifted labels are shifted twice. Not offered if tokens are padded.

## References

Transformers documentation, `GPT2LMHeadModel`, parameter `labels`; transformers#44642, #32944, #2033.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lintrain.analysis import collators, run_data, script_text, shifted_blocks
from lintrain.pipeline import shifts
from lintrain.pipeline.values import data, training
from lintrain.pipeline.values.model import ModelOutput
from lintrain.pipeline.values.python import Value
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
    one_per_location,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import TargetAlignment

MOST = 0.95
"""The share of equal tokens above which labels count as shifted, or as not shifted."""


WRITTEN = "rows"
"""What a finding is about whose labels are made by a function of the script."""

OWN_MODEL = r"\.Module\)|compute_loss|cross_entropy|CrossEntropyLoss|shift_labels"
"""Code of models and losses that may not shift the labels themselves."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the tokens to pass as labels; None without a fix."""

    labels: str | None


class DoubleShift(Rule[Claim]):
    level = Level.ERROR
    keywords = "label"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        followed = [*self._followed(pipeline)]
        yield from followed
        if not followed and _may_shift_again(pipeline):
            yield from one_per_location(map(self._report_written, shifted_blocks.shifted_rows(pipeline.source)))

    def _followed(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Labels whose tokens the reader follows to the model."""
        yield from one_per_location(self._report_call(call) for call in pipeline.model_calls)
        for given in run_data.given_datasets(pipeline):
            if _has_shifted_labels(given):
                yield self._report_rows(given)
        for batch in collators.own_batches(pipeline):
            if batch.run.model is not None and shifts.shifts_labels(batch.run.model) and _has_next_tokens(batch.parts):
                yield self._report_collator(batch)

    def _report_call(self, call: training.ModelCall) -> Finding[Claim] | None:
        tokens, labels = shifts.tokens_of(call), call.arguments.get("labels")
        if tokens is None or labels is None or not _reads_the_loss(call) or "shift_labels" in call.arguments:
            return None
        if not shifts.shifts_labels(call.model) or not shifts.are_next_tokens(tokens.value, labels.value):
            return None
        return self.finding(
            labels.location,
            f"`{call.model.name}` shifts labels by one token, but these are already shifted",
            related=[Related(tokens.location, "the input tokens", "tokens")],
            help="pass the same tokens as `input_ids` and `labels`",
            claim=Claim(tokens.text if tokens.text and labels.text and not _is_padded(tokens.value) else None),
        )

    def _report_rows(self, given: run_data.Given) -> Finding[Claim]:
        return self.finding(
            given.argument.location,
            f"labels of {given.text} are shifted by one token, and the model shifts them again",
            related=run_data.last_map(given.datasets[0], "labels are created here"),
            help="use the same tokens for `labels` and `input_ids`",
            subject=given.parameter,
        )

    def _report_collator(self, batch: collators.OwnBatch) -> Finding[Claim]:
        return self.finding(
            batch.location,
            "this collator shifts labels by one token, and the model shifts them again",
            help="use the same tokens for `labels` and `input_ids`",
            subject="data_collator",
        )

    def _report_written(self, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "these labels are shifted by one token, and the model shifts them again",
            help="use the same tokens for `labels` and `input_ids`",
            subject=WRITTEN,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loss = next((loss for loss in evidence.loop.losses if loss.alignment), None) if evidence.loop else None
        location = loss.location if loss is not None else evidence.location
        if location is None or evidence.model is None:
            return
        if evidence.model.task != "CausalLM" and _are_all_second(evidence):
            yield self.finding(
                location,
                "each position is compared with the token after the next one",
                help="shift the targets once: by the data set, the collator or the model",
            )
        elif evidence.model.task == "CausalLM":
            yield self.finding(
                location,
                "labels are shifted by one token, and the model shifts them again",
                help="use the same tokens for `labels` and `input_ids`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.loop is not None and evidence.loop.alignment is not None:
            return _verdict_of_loss(evidence.loop.alignment)
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or targets.equal_to_next is None or targets.equal_to_inputs is None or not targets.with_next:
            return Verdict.inconclusive("the batch has no labels for its tokens")
        text = f"{targets.equal_to_next} of {targets.with_next} labels equal the next input token"
        if targets.equal_to_inputs > MOST * targets.scored:
            same = f"{targets.equal_to_inputs} of {targets.scored} labels equal the input token at the same position"
            return Verdict.refuted(same, equal_to_inputs=targets.equal_to_inputs)
        if targets.equal_to_next > MOST * targets.with_next:
            return Verdict.confirmed(text, equal_to_next=targets.equal_to_next)
        return Verdict.refuted(text, equal_to_next=targets.equal_to_next)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.labels:
            return None
        return fixes.Fix.of("pass the input tokens as labels", fixes.Replace(finding.location, claim.labels), safe=True)


def _may_shift_again(pipeline: Pipeline) -> bool:
    """Whether all models of a script shift their labels, nothing else computes a loss, and no collator makes labels."""
    are_causal = bool(pipeline.models) and all(map(shifts.shifts_labels, pipeline.models))
    if not are_causal or script_text.mentions(pipeline, OWN_MODEL):
        return False
    if any(collator.makes_labels is not False for collator in pipeline.collators):
        return False
    return any(map(run_data.keeps_labels, pipeline.runs)) or any(map(_reads_the_loss, pipeline.model_calls))


def _are_all_second(evidence: Evidence) -> bool:
    """Whether all losses over tokens are two places ahead: with others it predicts several tokens at once."""
    aligned = [loss.alignment for loss in evidence.loop.losses if loss.alignment] if evidence.loop is not None else []
    return bool(aligned) and all(each.offset == 2 for each in aligned)


def _is_padded(tokens: Value) -> bool:
    """Whether tokens may contain padding, which no label should be."""
    return not isinstance(tokens, data.ColumnValues) or tokens.column.padding is not data.Padding.NONE


def _reads_the_loss(call: training.ModelCall) -> bool:
    return isinstance(call.output, ModelOutput) and "loss" in call.output.reads


def _has_next_tokens(parts: Mapping[str, Value]) -> bool:
    tokens, labels = parts.get("input_ids"), parts.get("labels")
    return tokens is not None and labels is not None and shifts.are_next_tokens(tokens, labels)


def _has_shifted_labels(given: run_data.Given) -> bool:
    """Whether the rows of a run have shifted labels, and its collator does not change them."""
    columns = [(dataset.columns or {}).get("labels") for dataset in given.datasets]
    if given.parameter != "train_dataset" or not all(column is not None and column.is_moved for column in columns):
        return False
    return run_data.keeps_labels(given.run) and given.run.model is not None and shifts.shifts_labels(given.run.model)


def _verdict_of_loss(targets: TargetAlignment) -> Verdict:
    """The verdict from the loss that was computed, after the model shifted its labels."""
    if targets.offset is None:
        return Verdict.inconclusive(targets.described, scored=targets.scored)
    return (Verdict.confirmed if targets.offset == 2 else Verdict.refuted)(targets.described, offset=targets.offset)
