"""The data set of a Trainer has no labels.

Trainer passes only the columns that the model's `forward` accepts, and collators expect labels as `label`, `labels` or
`label_ids`. A column with another name is removed: the model returns no loss, and the first step raises ValueError. A
network of the script's own has to compute the loss itself, and to return it first. An evaluation set without labels
raises no error, but `compute_metrics` is never called, which `lintrain probe` shows.

## Bad

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "target": [1, 0] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- missing-labels
    # raises ValueError: The model did not return a loss

Removing all columns also removes the labels:

    def tokenize_only(batch):
        return tokenizer(batch["premise"], batch["hypothesis"], truncation=True)

    rows = raw["train"].map(tokenize_only, batched=True, remove_columns=raw["train"].column_names)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- missing-labels
    # raises ValueError: The model did not return a loss

## Good

    rows = Dataset.from_dict({"text": ["a good film", "a bad film"] * 8, "target": [1, 0] * 8})
    rows = rows.map(lambda batch: tokenizer(batch["text"]), batched=True)
    trainer = Trainer(model, args, train_dataset=rows.rename_column("target", "labels"), processing_class=tokenizer)

and

    def tokenize_with_labels(batch):
        encoding = tokenizer(batch["premise"], batch["hypothesis"], truncation=True)
        encoding["labels"] = batch["label"]
        return encoding

    rows = raw["train"].map(tokenize_with_labels, batched=True, remove_columns=raw["train"].column_names)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

## When it is fine

A collator for language models creates the labels from the tokens:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    rows = text["train"].map(lambda batch: lm_tokenizer(batch["text"]), batched=True, remove_columns=["text"])
    rows = rows.filter(lambda row: len(row["input_ids"]) > 1)
    lm_collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=rows, data_collator=lm_collator)

A custom loss may use other targets:

    class Distiller(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            outputs = model(**inputs)
            loss = outputs.logits.pow(2).mean()
            return (loss, outputs) if return_outputs else loss

    columns = tokenized.remove_columns(["label", "idx"])
    trainer = Distiller(model, args, train_dataset=columns["train"], processing_class=tokenizer)

## Fix

Safe: without a column of this name the training raises an error. Offered if exactly one column can be the labels.

## References

transformers#34392; transformers documentation, "Trainer": the model must return a loss if `labels` are given.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lossless_models, run_data, trainer_methods
from lintrain.pipeline.values.data import Collator, Column, Dataset, Kind
from lintrain.pipeline.values.loading import Batch, Collated
from lintrain.pipeline.values.model import ModelOutput, Task
from lintrain.pipeline.values.python import Value, is_missing
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)

LABELLED = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.CAUSAL_LM,
        Task.MASKED_LM,
        Task.SEQ2SEQ_LM,
    }
)
"""Heads that compute their loss from `labels`."""

OWN_LOSS = frozenset({"compute_loss", "training_step", "_prepare_inputs"})
OWN_EVALUATION = frozenset({"evaluate", "evaluation_loop", "prediction_step", "compute_loss"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the argument, and the only column that can be the labels; None without a fix."""

    text: str
    column: str | None = None


class MissingLabels(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|from_pretrained & Trainer|loss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._of_loops(pipeline))
        yield from one_per_location(self._of_own_models(pipeline))
        for given in run_data.given_datasets(pipeline):
            if given.parameter == "train_dataset" and _needs_labels(given) and all(map(_has_none, given.datasets)):
                yield self._report(given)

    def _of_own_models(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Networks of the script's own that take no labels and return no loss."""
        for run in pipeline.runs:
            forward = lossless_models.forward_without_loss(pipeline, run)
            if forward is not None:
                yield self.finding(
                    forward,
                    "`forward` computes no loss, and the Trainer takes the loss from its output",
                    related=[Related(run.construction, "this trainer trains the network", "trainer")],
                    help="take `labels` as well and return the loss first, or override `compute_loss`",
                    subject="forward",
                )

    def _of_loops(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Passes of a model by the script's own code that read a loss which the model does not compute."""
        for call in pipeline.model_calls:
            batch = call.arguments.get("**")
            rows = _rows_of(batch.value) if batch is not None else None
            reads = isinstance(call.output, ModelOutput) and "loss" in call.output.reads
            if rows is None or not reads or "labels" in call.arguments or call.model.task not in LABELLED:
                continue
            if _has_none(rows):
                yield self.finding(
                    call.location,
                    "the batch has no `labels`, so the model returns no loss",
                    related=[
                        Related(step.location, "the rows are made here", "columns", step.text)
                        for step in rows.steps[-1:]
                    ],
                    help=f"keep a column `labels`: the rows have {', '.join(rows.columns or {})}",
                    subject="labels",
                )
        for popped in trainer_methods.popped_labels(pipeline.source):
            yield self.finding(
                popped.read,
                f"the loss is None: `labels` were taken out of `{popped.name}` before the pass",
                related=[Related(popped.taken, "taken out here", "labels")],
                help="read them without taking them out, or compute the loss from the logits",
                subject="labels",
            )

    def _report(self, given: run_data.Given) -> Finding[Claim]:
        dataset = given.datasets[0]
        columns = ", ".join(dataset.columns or {})
        left = _likely_labels(dataset)
        last = [Related(step.location, f"has {columns}", "columns", step.text) for step in dataset.steps[-1:]]
        renames = f'rename it: `{given.argument.text}.rename_column("{left.name}", "labels")`' if left else ""
        return self.finding(
            given.argument.location,
            f"{given.text} is passed to {given.run.name} without labels",
            related=[*run_data.origin_of(dataset), *last],
            why="the model returns no loss without `labels`",
            help=renames or _advice(given),
            subject=given.parameter,
            claim=Claim(given.argument.text, left.name if left else None),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.subject == "forward":
            return _verdict_of_own(evidence)
        batch = evidence.batch(finding.subject or "train_dataset")
        if evidence.model is None or batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        names = [tensor.name for tensor in batch.tensors]
        labels = sorted(set(names) & {*evidence.model.label_inputs, "labels"})
        if labels and evidence.passed("forward"):
            return Verdict.refuted(
                f"the batch of {batch.rows} rows has {', '.join(labels)}, and the model returns a loss"
            )
        if labels:
            return Verdict.inconclusive(
                f"the batch of {batch.rows} rows has {', '.join(labels)}, but the forward pass failed"
            )
        if evidence.passed("forward"):
            return Verdict.refuted(f"the model returns a loss for a batch of {batch.rows} rows without labels")
        return Verdict.confirmed(
            f"none of the {len(names)} tensors in the batch is a label: {', '.join(names)}", tensors=[*names]
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        """An evaluation set without labels: neither an error, nor a metric, nor a loss."""
        evaluation, batch = evidence.evaluation, evidence.batch("eval_dataset")
        # Where the Trainer knows no labels at all, that is the mistake (unset-label-names).
        if evidence.model is not None and not evidence.model.label_inputs:
            return
        if evaluation is None or batch is None or evidence.model is None or OWN_EVALUATION & set(evidence.overrides):
            return
        labels = {*evidence.model.label_inputs, "labels"} & {tensor.name for tensor in batch.tensors}
        is_silent = evaluation.has_metric_function and not evaluation.metric_function_called
        if evaluation.argument == "eval_dataset" and is_silent and not labels and evidence.passed("evaluation"):
            finding = self.finding(
                evidence.location,
                "the eval_dataset has no labels, so the metric function is never called",
                help="keep the label column of the evaluation set and name it `labels`",
                subject="eval_dataset",
                level=Level.WARNING,
            )
            names = ", ".join(tensor.name for tensor in batch.tensors)
            calls = f"the metric function is never called for {evaluation.rows} rows of {names}"
            yield finding, Verdict.confirmed(calls)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.column or not claim.text:
            return None
        code = f'{claim.text}.rename_column("{claim.column}", "labels")'
        return fixes.Fix.of(f"rename `{claim.column}` to `labels`", fixes.Replace(finding.location, code), safe=True)


NO_LOSS = ("did not return a loss", "grad can be implicitly created", "does not require grad", "argument 'labels'")
"""What a step says whose model returns no loss: of a dictionary without one, and of scores taken for one."""


def _verdict_of_own(evidence: Evidence) -> Verdict:
    """Whether a network of the script's own returns what can be taken for a loss."""
    failed = evidence.failed_with(*NO_LOSS)
    if failed is not None and failed.failure is not None:
        return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0][:60]}`")
    batch = evidence.batch("train_dataset")
    if evidence.passed("forward") and batch is not None:
        return Verdict.refuted(f"the network returned a loss for a batch of {batch.rows} rows", rows=batch.rows)
    return Verdict.inconclusive(evidence.not_reached("forward"))


def _rows_of(batch: Value) -> Dataset | None:
    """The rows of a loader whose batches have the columns of its data set; None if they may have others."""
    loader = batch.loader if isinstance(batch, Batch) and not isinstance(batch, Collated) else None
    if loader is None or not isinstance(loader.dataset, Dataset):
        return None
    plain = is_missing(loader.collate) or (
        isinstance(loader.collate, Collator) and loader.collate.makes_labels is False
    )
    return loader.dataset if plain else None


def _needs_labels(given: run_data.Given) -> bool:
    """Whether the labels of this model can only come from the data set."""
    run = given.run
    model = run.model
    if model is None or run_data.has_own_model(run) or model.task not in LABELLED or run.overrides & OWN_LOSS:
        return False
    if not is_missing(run.value("compute_loss_func")) or not _is_standard(given):
        return False
    collator = run.value("data_collator")
    return run_data.is_default_collator(collator) or (isinstance(collator, Collator) and collator.makes_labels is False)


def _is_standard(given: run_data.Given) -> bool:
    """Whether the training arguments set neither `label_names` nor label smoothing."""
    settings = given.run.settings
    if settings is None:
        return is_missing(given.run.value("args"))
    return is_missing(settings.usual("label_names")) and is_missing(settings.usual("label_smoothing_factor"))


def _has_none(dataset: Dataset) -> bool:
    """Whether a tokenized data set certainly has no label column."""
    names = set(dataset.columns or {})
    return (
        dataset.is_complete and not dataset.may_differ and dataset.is_tokenized and not names & run_data.LABEL_COLUMNS
    )


def _likely_labels(dataset: Dataset) -> Column | None:
    """The only column that can be the labels, or None."""
    found = [column for column in (dataset.columns or {}).values() if column.kind in {Kind.CLASS, Kind.INTEGER}]
    return found[0] if len(found) == 1 and "idx" not in found[0].name else None


def _advice(given: run_data.Given) -> str:
    task = given.run.model.task if given.run.model else None
    if task in {Task.CAUSAL_LM, Task.MASKED_LM}:
        return "pass `DataCollatorForLanguageModeling`, which creates labels from the tokens"
    return "keep the label column and name it `labels`"
