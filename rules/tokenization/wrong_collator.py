"""The collator pads only the inputs, but the labels of this task need padding, too.

`DataCollatorWithPadding`, the default collator of a Trainer with a tokenizer, does not pad labels that are lists, such
as one label per token. The first batch whose rows differ in length raises an error.

## Bad

    def tag(batch):
        rows = tokenizer(batch["premise"], truncation=True)
        return {**rows, "labels": [[1] * len(ids) for ids in rows["input_ids"]]}

    tagged = raw.map(tag, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model, args, train_dataset=tagged["train"], data_collator=collator)  # <- wrong-collator
    # raises ValueError: Unable to create tensor

Trainer uses this collator if it gets a tokenizer:

    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda batch: words(batch["premise"], text_target=batch["hypothesis"], truncation=True),
        batched=True,
        remove_columns=raw["train"].column_names,
    )
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    args = Seq2SeqTrainingArguments("out")
    trainer = Seq2SeqTrainer(model, args, train_dataset=pairs["train"], processing_class=words)  # <- wrong-collator
    # raises ValueError: Unable to create tensor

## Good

    def tag(batch):
        rows = tokenizer(batch["premise"], truncation=True)
        return {**rows, "labels": [[1] * len(ids) for ids in rows["input_ids"]]}

    tagged = raw.map(tag, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer = Trainer(model, args, train_dataset=tagged["train"], data_collator=collator)

For sequence-to-sequence models:

    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda batch: words(batch["premise"], text_target=batch["hypothesis"], truncation=True),
        batched=True,
        remove_columns=raw["train"].column_names,
    )
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    args = Seq2SeqTrainingArguments("out")
    trainer = Seq2SeqTrainer(
        model,
        args,
        train_dataset=pairs["train"],
        processing_class=words,
        data_collator=DataCollatorForSeq2Seq(words, model=model),
    )

## When it is fine

Inputs and labels of equal length need no padding:

    def tag(batch):
        rows = tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=32)
        return {**rows, "labels": [[1] * 32 for _ in rows["input_ids"]]}

    tagged = raw.map(tag, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=tagged["train"], processing_class=tokenizer)

Rows from other code may have equal length:

    from my_project import load_tagged

    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=load_tagged(tokenizer), processing_class=tokenizer)

## Fix

Safe: with the old collator labels of different length raise an error.

## References

Hugging Face course, chapter 7, "Token classification" and "Translation".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, run_data
from lintrain.pipeline.values.data import Dataset, Kind
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import literal
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

PADDING = "transformers.DataCollatorWithPadding"
FITTING = {
    Task.TOKEN_CLASSIFICATION: "DataCollatorForTokenClassification",
    Task.SEQ2SEQ_LM: "DataCollatorForSeq2Seq",
    Task.CAUSAL_LM: "DataCollatorForSeq2Seq",
}
RAGGED_ERRORS = ("Unable to create tensor", "excessive nesting", "expected sequence of length")
"""Error messages for labels of different length."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The name and the code of the correct collator; None without a fix."""

    collator: str | None = None
    code: str | None = None


class WrongCollator(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for collation in collators.collations(pipeline):
            model, collator = collation.model, collation.collator
            if model is None or model.task not in FITTING or (collator is not None and collator.path != PADDING):
                continue
            reasons = collators.ragged_at(pipeline, collation.dataset)
            if not reasons or not _has_ragged_labels(collation.dataset) or _takes_single_rows(collation.run):
                continue
            fitting = FITTING[model.task]
            given = (
                Related(collator.origin, "pads only the inputs", "collator") if collator and collator.origin else None
            )
            yield self.finding(
                collation.location,
                f"`DataCollatorWithPadding` does not pad the labels of {NAMES[model.task]}",
                related=[*reasons, *([given] if given else [])],
                help=f"use `{fitting}`, which pads labels with -100",
                claim=_claim(pipeline, collation, fitting),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model, split = evidence.model, evidence.split("train_dataset")
        labels = split.column("labels") if split is not None else None
        of_tokens = {"TokenClassification", "ConditionalGeneration", "CausalLM"}
        # Labels of one length may be padded where they are made.
        is_ragged = labels is not None and len(labels.lengths) > 1 and labels.lengths[0] < labels.lengths[-1]
        if model is not None and model.task in of_tokens and is_ragged and not evidence.passed("forward"):
            yield self.finding(
                evidence.location,
                "the collator pads the inputs, but not the labels",
                help="use `DataCollatorForTokenClassification`, or `DataCollatorForSeq2Seq` for texts",
                subject="data_collator",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAGGED_ERRORS)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(
                f"the {failed.name} stage failed with `{failed.failure.type}` for labels of different length"
            )
        batch = evidence.batch()
        labels = batch.tensor("labels") if batch else None
        if batch is None or labels is None:
            return Verdict.inconclusive(evidence.not_reached("batch") if batch is None else "the batch has no `labels`")
        if len(labels.shape) < 2:
            return Verdict.refuted(f"each row has one label: the labels have shape {list(labels.shape)}")
        if batch.labels is not None and batch.labels.pad_supervised:
            count = batch.labels.pad_supervised
            return Verdict.confirmed(f"{count} labels of unattended tokens are not -100", padding=count)
        return Verdict.refuted(f"labels of shape {list(labels.shape)} were collated, with -100 as padding")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.collator is None or claim.code is None:
            return None
        made = finding.with_role("collator")
        edit = (
            fixes.Replace(made[0].location, claim.code)
            if made
            else fixes.AddArgument(finding.location, "data_collator", claim.code)
        )
        return fixes.Fix.of(f"use `{claim.collator}`", edit, fixes.AddImport("transformers", claim.collator), safe=True)


def _takes_single_rows(run: TrainerRun | None) -> bool:
    """Whether a run trains on batches of one row, which need no padding."""
    settings = run.settings if run is not None else None
    return settings is not None and literal(settings.value("per_device_train_batch_size")) == 1


def _has_ragged_labels(value: object) -> bool:
    """Whether rows have labels that may be lists, of the same length as their token ids."""
    if not isinstance(value, Dataset):
        return False
    label = (value.columns or {}).get("labels")
    return label is not None and label.kind not in {Kind.CLASS, Kind.INTEGER, Kind.FLOAT, Kind.TEXT}


NAMES = {
    Task.TOKEN_CLASSIFICATION: "token classification",
    Task.SEQ2SEQ_LM: "sequence-to-sequence models",
    Task.CAUSAL_LM: "causal language models",
}


def _claim(pipeline: Pipeline, collation: collators.Collation, fitting: str) -> Claim:
    """The claim with the correct collator, if the tokenizer has a name and the old call has no other arguments."""
    name = run_data.tokenizer_name(pipeline, collation.location)
    collator = collation.collator
    if name is None or (collator is not None and set(collator.arguments) != {"tokenizer"}):
        return Claim()
    models = [binding.name for binding in pipeline.bindings if binding.value is collation.model]
    made = collator.origin if collator and collator.origin else collation.location
    is_early = any(binding.value is collation.model and binding.location < made for binding in pipeline.bindings)
    extra = (
        f", model={models[-1]}"
        if collation.model is not None and collation.model.task is Task.SEQ2SEQ_LM and models and is_early
        else ""
    )
    return Claim(fitting, f"{fitting}({name}{extra})")
