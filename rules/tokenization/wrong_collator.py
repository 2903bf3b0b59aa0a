"""The collator pads the inputs, and the labels of this task are rows that need padding as well.

`DataCollatorWithPadding`, which is also what Trainer makes of a tokenizer, knows nothing of labels that are lists: one
for each token, or the tokens of an answer. The run ends at the first batch whose rows differ in length.

## Bad

    def tag(batch):
        rows = tokenizer(batch["premise"], truncation=True)
        return {**rows, "labels": [[1] * len(ids) for ids in rows["input_ids"]]}

    tagged = raw.map(tag, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model, args, train_dataset=tagged["train"], data_collator=collator)  # <- wrong-collator
    # raises ValueError: Unable to create tensor

What Trainer makes of a tokenizer is the same collator:

    keywords = AutoTokenizer.from_pretrained("t5-small")
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

And for sequences as labels:

    keywords = AutoTokenizer.from_pretrained("t5-small")
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

Inputs and labels of one length leave nothing to pad:

    def tag(batch):
        rows = tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=32)
        return {**rows, "labels": [[1] * 32 for _ in rows["input_ids"]]}

    tagged = raw.map(tag, batched=True, remove_columns=raw["train"].column_names)
    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=tagged["train"], processing_class=tokenizer)

Rows that other code has prepared may be of one length:

    from my_project import load_tagged

    model = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=load_tagged(tokenizer), processing_class=tokenizer)

## Fix

Safe: labels of different lengths end the run with the other collator.

## References

Hugging Face course, chapter 7, "Token classification" and "Translation".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, raggedness, run_data
from lintrain.pipeline.values.data import Dataset, Kind
from lintrain.pipeline.values.model import Task
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

PADDING = "transformers.DataCollatorWithPadding"
FITTING = {
    Task.TOKEN_CLASSIFICATION: "DataCollatorForTokenClassification",
    Task.SEQ2SEQ_LM: "DataCollatorForSeq2Seq",
}
RAGGED = ("Unable to create tensor", "excessive nesting", "expected sequence of length")
IGNORED = -100


class WrongCollator(Rule):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for collation in collators.collations(pipeline):
            model, collator = collation.model, collation.collator
            if model is None or model.task not in FITTING or (collator is not None and collator.path != PADDING):
                continue
            reasons = raggedness.ragged_at(pipeline, collation.dataset)
            if not reasons or not _has_ragged_labels(collation.dataset):
                continue
            fitting = FITTING[model.task]
            given = Related(collator.origin, "pads inputs only", "collator") if collator and collator.origin else None
            yield self.finding(
                collation.location,
                f"`DataCollatorWithPadding` pads no labels; {_short(model.task)} has rows of them",
                related=[*reasons, *([given] if given else [])],
                help=f"use `{fitting}`, which pads labels with -100",
                facts=_cure(pipeline, collation, fitting),
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAGGED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(
                f"the {failed.name} stage ends with `{failed.failure.type}` on labels of unequal length"
            )
        batch = evidence.batch()
        labels = batch.tensor("labels") if batch else None
        if batch is None or labels is None:
            return Verdict.inconclusive(evidence.not_reached("batch") if batch is None else "the batch has no `labels`")
        if len(labels.shape) < 2:
            return Verdict.refuted(f"each row has one label: {list(labels.shape)}")
        if batch.labels is not None and batch.labels.pad_supervised:
            count = batch.labels.pad_supervised
            return Verdict.confirmed(f"{count} labels stand where nothing is attended, and are not -100", padding=count)
        return Verdict.refuted(f"labels of {list(labels.shape)} make one batch, padding among them is -100")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name, code = finding.facts.get("collator"), finding.facts.get("code")
        if not isinstance(name, str) or not isinstance(code, str):
            return None
        made = finding.with_role("collator")
        edit = (
            fixes.Replace(made[0].location, code)
            if made
            else fixes.AddArgument(finding.location, "data_collator", code)
        )
        return fixes.Fix.of(f"use `{name}`", edit, fixes.AddImport("transformers", name), safe=True)


def _has_ragged_labels(value: object) -> bool:
    """Whether rows have labels beside their ragged ids, not known to be one number: such models want one each."""
    if not isinstance(value, Dataset):
        return False
    label = (value.columns or {}).get("labels")
    return label is not None and label.kind not in {Kind.CLASS, Kind.INTEGER, Kind.FLOAT, Kind.TEXT}


def _short(task: Task) -> str:
    return "token classification" if task is Task.TOKEN_CLASSIFICATION else "sequence-to-sequence"


def _cure(
    pipeline: Pipeline, collation: collators.Collation, fitting: str
) -> dict[str, str | int | float | bool | None]:
    """The call of the fitting collator, where the tokenizer has a name and the old call gives nothing else."""
    name = run_data.tokenizer_name(pipeline, collation.location)
    collator = collation.collator
    if name is None or (collator is not None and set(collator.arguments) != {"tokenizer"}):
        return {}
    models = [binding.name for binding in pipeline.bindings if binding.value is collation.model]
    made = collator.origin if collator and collator.origin else collation.location
    is_early = any(binding.value is collation.model and binding.location < made for binding in pipeline.bindings)
    extra = f", model={models[-1]}" if fitting == FITTING[Task.SEQ2SEQ_LM] and models and is_early else ""
    return {"collator": fitting, "code": f"{fitting}({name}{extra})"}
