"""Labels are moved by one token, and the model moves them once more.

A causal language model of transformers compares each position with the label of the next one by itself: it wants
`labels` equal to `input_ids`. Labels that were moved before teach it the token after the next. The loss falls as
always, and what the model writes makes no sense.

## Bad

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    loss = lm(input_ids=ids[:, :-1], labels=ids[:, 1:]).loss  # <- double-shift
    loss.backward()
    optimizer.step()

In the function that makes the rows:

    def make_rows(batch):
        tokens = lm_tokenizer(batch["text"], truncation=True, max_length=32, padding="max_length")["input_ids"]
        return {"input_ids": [row[:-1] for row in tokens], "labels": [row[1:] for row in tokens]}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)  # <- double-shift
    trainer.train()

In a collator of one's own:

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

In the function that makes the rows:

    def make_rows(batch):
        tokens = lm_tokenizer(batch["text"], truncation=True, max_length=32, padding="max_length")["input_ids"]
        return {"input_ids": tokens, "labels": [list(row) for row in tokens]}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(make_rows, batched=True, remove_columns=["text"])
    trainer = Trainer(lm, TrainingArguments("out"), train_dataset=rows)
    trainer.train()

## When it is fine

A loss of one's own on the logits needs moved labels:

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    logits = lm(input_ids=ids[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()

A network of one's own moves nothing:

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60000, 8)
            self.head = nn.Linear(8, 60000)

        def forward(self, ids, labels):
            return F.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), labels.flatten())

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    Tiny()(ids[:, :-1], labels=ids[:, 1:]).backward()

Windows that do not lie one token apart are other texts:

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    lm(input_ids=ids[:, :-2], labels=ids[:, :-2]).loss.backward()

## Fix

Safe: the model moves the labels by itself, so that they are moved twice as it stands. Not offered where tokens are
padded.

## References

Transformers documentation, `GPT2LMHeadModel`, parameter `labels`; transformers#44642, #32944, #2033.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lintrain.analysis import collators, run_data
from lintrain.evidence.run import TargetAlignment
from lintrain.pipeline import shifts
from lintrain.pipeline.values.data import ColumnValues, Padding
from lintrain.pipeline.values.model import ModelOutput
from lintrain.pipeline.values.python import Value
from lintrain.pipeline.values.training import ModelCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, one_per_location

MOST_OF_THEM = 0.95


class DoubleShift(Rule):
    level = Level.ERROR
    keywords = "label"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._of_call(call) for call in pipeline.model_calls)
        for given in run_data.given_datasets(pipeline):
            if _is_moved(given):
                yield self._of_rows(given)
        for batch in collators.own_batches(pipeline):
            if batch.run.model is not None and shifts.shifts_labels(batch.run.model) and _has_next_tokens(batch.parts):
                yield self._of_collator(batch)

    def _of_call(self, call: ModelCall) -> Finding | None:
        tokens, labels = shifts.tokens_of(call), call.arguments.get("labels")
        if tokens is None or labels is None or not _reads_the_loss(call) or "shift_labels" in call.arguments:
            return None
        if not shifts.shifts_labels(call.model) or not shifts.are_next_tokens(tokens.value, labels.value):
            return None
        return self.finding(
            labels.location,
            f"`{call.model.name}` moves labels by one token, and these are moved already",
            related=[Related(tokens.location, "the tokens, from the first on", "tokens")],
            help="give it the same tokens as `input_ids` and as `labels`",
            facts={"labels": tokens.text if tokens.text and labels.text and not _is_padded(tokens.value) else None},
        )

    def _of_rows(self, given: run_data.Given) -> Finding:
        return self.finding(
            given.argument.location,
            f"{given.text} has labels that are moved by one token, and the model moves them",
            related=run_data.last_map(given.datasets[0], "the rows get their labels here"),
            help="let `labels` be the same tokens as `input_ids`",
            subject=given.parameter,
        )

    def _of_collator(self, batch: collators.OwnBatch) -> Finding:
        return self.finding(
            batch.location,
            "its batches have labels that are moved by one token, and the model moves them",
            help="let `labels` be the same tokens as `input_ids`",
            subject="data_collator",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.loop is not None and evidence.loop.alignment is not None:
            return _in_own_loop(evidence.loop.alignment)
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or targets.equal_to_next is None or targets.equal_to_inputs is None or not targets.with_next:
            return Verdict.inconclusive("the batch holds no labels beside its tokens")
        text = f"{targets.equal_to_next} of {targets.with_next} labels are the token after the input's"
        if targets.equal_to_inputs > MOST_OF_THEM * targets.scored:
            same = f"{targets.equal_to_inputs} of {targets.scored} labels are the token at their own position"
            return Verdict.refuted(same, equal_to_inputs=targets.equal_to_inputs)
        if targets.equal_to_next > MOST_OF_THEM * targets.with_next:
            return Verdict.confirmed(text, equal_to_next=targets.equal_to_next)
        return Verdict.refuted(text, equal_to_next=targets.equal_to_next)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        labels = finding.facts.get("labels")
        if not isinstance(labels, str) or not labels:
            return None
        return fixes.Fix.of("give the same tokens as labels", fixes.Replace(finding.location, labels), safe=True)


def _is_padded(tokens: Value) -> bool:
    """Whether tokens may hold padding, which no label should be."""
    return not isinstance(tokens, ColumnValues) or tokens.column.padding is not Padding.NONE


def _reads_the_loss(call: ModelCall) -> bool:
    return isinstance(call.output, ModelOutput) and "loss" in call.output.reads


def _has_next_tokens(parts: Mapping[str, Value]) -> bool:
    tokens, labels = parts.get("input_ids"), parts.get("labels")
    return tokens is not None and labels is not None and shifts.are_next_tokens(tokens, labels)


def _is_moved(given: run_data.Given) -> bool:
    """Whether the labels of a run's rows are moved, and its collator leaves them as they are."""
    columns = [(dataset.columns or {}).get("labels") for dataset in given.datasets]
    if given.parameter != "train_dataset" or not all(column is not None and column.is_moved for column in columns):
        return False
    return run_data.keeps_labels(given.run) and given.run.model is not None and shifts.shifts_labels(given.run.model)


def _in_own_loop(targets: TargetAlignment) -> Verdict:
    """The loss that was computed tells more than the batch: the model has moved its labels there."""
    if targets.offset is None:
        return Verdict.inconclusive(targets.described, scored=targets.scored)
    return (Verdict.confirmed if targets.offset == 2 else Verdict.refuted)(targets.described, offset=targets.offset)
