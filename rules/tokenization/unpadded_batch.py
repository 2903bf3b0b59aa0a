"""Rows of unequal length are put into one batch, and nothing pads them.

A tokenizer pads only when it is asked to, and what Trainer and DataLoader take for a collator by default only stacks
rows. The run ends at the first batch whose rows differ in length.

## Bad

    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])  # <- unpadded-batch
    # raises ValueError: expected sequence of length

## Good

    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=DataCollatorWithPadding(tokenizer))

## When it is fine

Trainer pads by itself when it is given the tokenizer:

    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)

Rows may all be made equally long:

    def tokenize_to_length(batch):
        return tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=32)

    tokenized = raw.map(tokenize_to_length, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])

A batch of one row has nothing to be padded to:

    args = TrainingArguments("out", per_device_train_batch_size=1)
    trainer = Trainer(model, args, train_dataset=tokenized["train"])

## References

transformers#15183; Hugging Face course, chapter 3 "Dynamic padding".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    AddArgument,
    AddImport,
    Dataset,
    Evidence,
    Finding,
    Fix,
    Kind,
    Level,
    Loader,
    Padding,
    Pipeline,
    Place,
    Reason,
    Rule,
    Task,
    TrainerRun,
    Value,
    Verdict,
    confirmed,
    is_missing,
    literal,
    refuted,
    unsettled,
)
from lintrain.pipeline.given import Given, given_datasets, tokenizer_name
from lintrain.pipeline.values.data import Collator

COLLATORS = {
    Task.SEQUENCE_CLASSIFICATION: "DataCollatorWithPadding({})",
    Task.TOKEN_CLASSIFICATION: "DataCollatorForTokenClassification({})",
    Task.CAUSAL_LM: "DataCollatorForLanguageModeling({}, mlm=False)",
}

RAGGED = (
    "expected sequence of length",
    "stack expects each tensor to be equal size",
    "each element in list of batch should be of equal size",
    "Unable to create tensor",
)


class UnpaddedBatch(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen: set[TrainerRun] = set()
        for given in given_datasets(pipeline):
            if given.run not in seen and _stacks(given) and all(map(is_ragged, given.datasets)):
                seen.add(given.run)
                yield self._report_trainer(pipeline, given)
        for loader in pipeline.loaders:
            if (
                loader.origin
                and isinstance(loader.dataset, Dataset)
                and _stacks_rows(loader)
                and is_ragged(loader.dataset)
            ):
                yield self._report_loader(pipeline, loader, loader.dataset, loader.origin)

    def _report_trainer(self, pipeline: Pipeline, given: Given) -> Finding:
        run = given.run
        task = run.model.task if run.model else None
        collator = COLLATORS.get(task, "").format(tokenizer_name(pipeline, run.construction)) if task else ""
        return self.finding(
            run.construction,
            f"rows of {given.text} differ in length, and nothing pads them",
            because=_tokenized_at(given.datasets[0]),
            help="pass `data_collator=DataCollatorWithPadding(tokenizer)` or `processing_class=tokenizer`",
            subject=given.parameter,
            facts=_cure(pipeline, run.construction, "data_collator", collator)
            | {"safe": task is Task.SEQUENCE_CLASSIFICATION},
        )

    def _report_loader(self, pipeline: Pipeline, loader: Loader, dataset: Dataset, place: Place) -> Finding:
        name = tokenizer_name(pipeline, place)
        has_text = bool(dataset.text_columns) or not dataset.is_complete
        text = pipeline.code(loader.dataset_place) if loader.dataset_place else ""
        shown = f"`{text}`" if 0 < len(text) <= 36 and "\n" not in text else "this data set"
        return self.finding(
            place,
            f"rows of {shown} differ in length, and DataLoader does not pad",
            because=_tokenized_at(dataset),
            help="pass `collate_fn=DataCollatorWithPadding(tokenizer)`",
            facts=_cure(pipeline, place, "collate_fn", "" if has_text else f"DataCollatorWithPadding({name})"),
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        parameter = finding.subject or "train_dataset"
        split, batch = evidence.split(parameter), evidence.batch(parameter)
        tokens = split.column("input_ids") if split else None
        shortest, longest = (tokens.lengths[0], tokens.lengths[-1]) if tokens and tokens.lengths else (0, 0)
        stage = evidence.stage("batch")
        if stage is not None and stage.failure is not None and stage.failure.says(*RAGGED) and longest > shortest:
            return confirmed(
                f"rows of {shortest} to {longest} tokens do not stack: {stage.failure.type}",
                shortest=shortest,
                longest=longest,
            )
        if batch is None:
            return unsettled(evidence.not_reached("batch"))
        if longest and shortest == longest:
            return unsettled(f"all rows that were read have {longest} tokens")
        return refuted(f"{batch.rows} rows of {shortest} to {longest} tokens make one batch", rows=batch.rows)

    def fix(self, finding: Finding) -> Fix | None:
        name, code = finding.facts.get("argument"), finding.facts.get("code")
        if not isinstance(name, str) or not isinstance(code, str):
            return None
        collator = code.partition("(")[0]
        return Fix.of(
            f"pass `{name}={code}`",
            AddArgument(finding.place, name, code),
            AddImport("transformers", collator),
            safe=finding.facts.get("safe") is True,
        )


def is_ragged(dataset: Dataset) -> bool:
    """Whether its token rows certainly differ in length: tokenized without padding, not chosen by length since."""
    columns = (dataset.columns or {}).values()
    tokens = [column for column in columns if column.kind is Kind.TOKENS]
    after_map = dataset.operations[_last_map(dataset) :]
    return (
        any(column.name == "input_ids" and column.padding is Padding.NONE for column in tokens)
        and not dataset.has_transform
        and "filter" not in after_map
    )


def _last_map(dataset: Dataset) -> int:
    return max((index for index, name in enumerate(dataset.operations) if name == "map"), default=0)


def _stacks(given: Given) -> bool:
    """Whether this Trainer certainly puts several rows into a batch as they are."""
    run = given.run
    collator = run.value("data_collator")
    if not is_missing(collator) and not (isinstance(collator, Collator) and collator.pads is False):
        return False
    if not all(is_missing(run.value(name)) for name in ("processing_class", "tokenizer")) and is_missing(collator):
        return False
    settings = run.settings
    if settings is None:
        return is_missing(run.value("args"))
    kind = "train" if given.parameter == "train_dataset" else "eval"
    return _is_many(settings.value(f"per_device_{kind}_batch_size"), 8)


def _is_many(size: Value, default: int) -> bool:
    number = default if is_missing(size) else literal(size)
    return isinstance(number, int) and number > 1


def _stacks_rows(loader: Loader) -> bool:
    """Whether this DataLoader certainly puts several rows into a batch as they are; by itself it takes one."""
    given = loader.arguments
    if "batch_sampler" in given or "**" in given or not is_missing(loader.collate):
        return False
    return "batch_size" in given and _is_many(given["batch_size"], 1)


def _tokenized_at(dataset: Dataset) -> list[Reason]:
    maps = [step for step in dataset.steps if step.operation == "map"]
    return [Reason(step.place, "tokenized here without `padding`", "tokenized", step.text) for step in maps[-1:]]


def _cure(pipeline: Pipeline, place: Place, argument: str, code: str) -> dict[str, str | int | float | bool | None]:
    """The argument that would pad, where the tokenizer has a name at this place."""
    is_known = bool(code) and tokenizer_name(pipeline, place) is not None
    return {"argument": argument if is_known else None, "code": code if is_known else None}
