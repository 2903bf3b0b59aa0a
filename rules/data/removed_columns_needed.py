"""Trainer removes a column that a transform, collator or loss of the script reads.

Trainer keeps only the columns that the model's `forward` accepts, and removes the others before any row is read. A
transform, a collator or a loss that needs another column raises `KeyError` at the first batch.

## Bad

    def encode(rows):
        return {**tokenizer(rows["premise"], rows["hypothesis"], truncation=True), "labels": rows["label"]}

    rows = raw["train"].with_transform(encode)
    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- removed-columns-needed
    # raises KeyError: 'premise'

A collator that tokenizes has no text:

    def collate(rows):
        batch = tokenizer([row["premise"] for row in rows], padding=True, truncation=True, return_tensors="pt")
        return {**batch, "labels": torch.tensor([row["label"] for row in rows])}

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=raw["train"], data_collator=collate)  # <- removed-columns-needed
    # raises KeyError: 'premise'

A weighted loss has no weights:

    class OwnTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            weights = inputs.pop("idx")
            outputs = model(**inputs)
            loss = (outputs.loss * weights.float().mean()).mean()
            return (loss, outputs) if return_outputs else loss

    rows = tokenized.remove_columns(["premise", "hypothesis"])["train"]
    args = TrainingArguments("out")
    trainer = OwnTrainer(model, args, train_dataset=rows, processing_class=tokenizer)  # <- removed-columns-needed
    # raises KeyError: 'idx'

## Good

    def encode(rows):
        return {**tokenizer(rows["premise"], rows["hypothesis"], truncation=True), "labels": rows["label"]}

    rows = raw["train"].with_transform(encode)
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer)

and

    def collate(rows):
        batch = tokenizer([row["premise"] for row in rows], padding=True, truncation=True, return_tensors="pt")
        return {**batch, "labels": torch.tensor([row["label"] for row in rows])}

    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=raw["train"], data_collator=collate)

and

    class OwnTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            weights = inputs.pop("idx")
            outputs = model(**inputs)
            loss = (outputs.loss * weights.float().mean()).mean()
            return (loss, outputs) if return_outputs else loss

    rows = tokenized.remove_columns(["premise", "hypothesis"])["train"]
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = OwnTrainer(model, args, train_dataset=rows, processing_class=tokenizer)

## When it is fine

Columns that the model accepts are kept, and `get` reads a column that may be missing:

    def collate(rows):
        batch = tokenizer.pad([{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt")
        weights = [row.get("premise", 1) for row in rows]
        return {**batch, "labels": torch.tensor([row["label"] for row in rows])}

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collate)

A custom model may accept other columns; the `forward` of a model class from an installed package is read, too:

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, input_ids, attention_mask, labels, premise=None):
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, labels=labels)

    def collate(rows):
        kept = [{name: row[name] for name in ("input_ids", "attention_mask", "label")} for row in rows]
        assert all(row["premise"] for row in rows)
        return collator(kept)

    args = TrainingArguments("out", remove_unused_columns=True)
    trainer = Trainer(Wrapped(), args, train_dataset=tokenized["train"], data_collator=collate)

## Fix

Safe where a transform or a collator of the script reads the columns: without them it raises an error. Asks first if the
collator belongs to a library, which may not support text columns.

## References

transformers#22119; transformers documentation, `TrainingArguments.remove_unused_columns`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data, script_text, trainer_methods
from lintrain.pipeline.values.data import Dataset, Kind
from lintrain.pipeline.values.python import Absent, is_missing, is_true, options_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

KEEPS = r"_signature_columns|\.remove_unused_columns *=[^=]|\.label_names"
"""Code that may keep columns of which nothing is known here."""

NEVER_INPUTS = frozenset(
    {
        *("text", "texts", "sentence", "sentence1", "sentence2", "premise", "hypothesis", "question", "question1"),
        *("question2", "context", "images", "img", "audio", "file", "path", "review", "content", "title", "body"),
        *("document", "summary", "article", "answer", "answers", "prompt", "completion", "translation", "tweet"),
        *("comment", "tokens", "words", "ner_tags", "weight", "weights", "sample_weight", "target", "targets"),
        *("idx", "id", "category", "class", "y"),
    }
)
"""Columns that no model of transformers 5.23 accepts in its `forward`."""

OWN_MEDIA = frozenset({Kind.TEXT, Kind.AUDIO})


@dataclass(frozen=True, slots=True)
class Claim:
    """The call that creates the training arguments, None without a fix; `is_safe` is the safety of the fix."""

    arguments: Location | None = None
    is_safe: bool = False


class RemovedColumnsNeeded(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            dataset = pipeline.rows_of(run.value("train_dataset"))
            if dataset is None and _removes_columns(run):
                yield from self._of_unknown_rows(pipeline, run)
            if dataset is None or not _removes_columns(run) or dataset.is_streaming or dataset.may_differ:
                continue
            for reader, needs in _needs(pipeline, run, dataset):
                removed = [name for name in needs if _is_removed_from(run, dataset, name)]
                if removed:
                    yield self._report(run, reader, removed[0], needs[removed[0]])
                    break

    def _of_unknown_rows(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding[Claim]]:
        """What an own loss reads and no model of its family accepts is removed, whatever the rows are."""
        inputs = run_data.plain_inputs(run)
        if inputs is None or not _has_no_collator(run) or script_text.mentions(pipeline, KEEPS):
            return
        for name, location in _read_by_loss(pipeline, run):
            if name not in inputs:
                yield self._report(run, "`compute_loss`", name, location)
                return

    def _report(self, run: TrainerRun, reader: str, column: str, location: Location) -> Finding[Claim]:
        settings = run.settings
        arguments = settings.origin if settings is not None and settings.text.endswith(")") else None
        return self.finding(
            run.construction,
            f"`{run.name}` removes the column `{column}`, but {reader} reads it",
            related=[Related(location, f"reads `{column}`, which has been removed", "needed")],
            help="pass `remove_unused_columns=False` to the training arguments",
            subject=column,
            claim=Claim(arguments, reader != "`compute_loss`"),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        column = finding.subject or ""
        stage = evidence.failed_with(f"KeyError: '{column}'", f'KeyError: "{column}"', f"KeyError: {column}")
        if stage is not None:
            return Verdict.confirmed(f"KeyError in the {stage.name} stage: the rows have no column `{column}`")
        batch = evidence.batch("train_dataset")
        if batch is not None and evidence.passed("forward"):
            return Verdict.refuted(
                f"a batch of {batch.rows} rows was collated and passed through the model without a KeyError"
            )
        return Verdict.inconclusive(evidence.not_reached("batch"))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.arguments is None:
            return None
        edit = fixes.AddArgument(claim.arguments, "remove_unused_columns", "False")
        return fixes.Fix.of("keep all columns", edit, safe=claim.is_safe)


def _removes_columns(run: TrainerRun) -> bool:
    """Whether a plain Trainer certainly removes the columns that a library's model does not accept."""
    if not run.is_plain or run.overrides & run_data.OWN_LOADING:
        return False
    if run_data.has_own_model(run) and run_data.installed_inputs(run) is None:
        return False
    if run.settings is None:
        return is_missing(run.value("args"))
    kept = run.settings.value("remove_unused_columns")
    return isinstance(kept, Absent) or is_true(kept)


def _needs(pipeline: Pipeline, run: TrainerRun, dataset: Dataset) -> Iterator[tuple[str, dict[str, Location]]]:
    """The code that reads columns, by its name in messages, and which columns it certainly reads."""
    if dataset.has_transform:
        yield "its transform", dataset.needs
        return
    yield "the collator", run.collator_needs
    if _has_no_collator(run):
        yield "`compute_loss`", dict(_read_by_loss(pipeline, run))


def _is_removed_from(run: TrainerRun, dataset: Dataset, name: str) -> bool:
    inputs, columns = run_data.plain_inputs(run), {**dataset.hidden, **(dataset.columns or {})}
    if inputs is not None and name not in inputs and (name in columns or not dataset.is_complete):
        return True
    return _is_removed(dataset, name, run_data.installed_inputs(run))


def _has_no_collator(run: TrainerRun) -> bool:
    collator = run.value("data_collator")
    return isinstance(collator, Absent) or all(map(is_missing, options_of(collator)))


def _is_removed(dataset: Dataset, name: str, inputs: frozenset[str] | None) -> bool:
    """Whether the data set has a column that no model of the library accepts, or not the model with these inputs."""
    column = {**dataset.hidden, **(dataset.columns or {})}.get(name)
    if column is None or inputs is not None:
        return column is not None and name not in (inputs or ())
    return name in NEVER_INPUTS or (column.kind in OWN_MEDIA and name not in {"label", "labels", "label_ids"})


def _read_by_loss(pipeline: Pipeline, run: TrainerRun) -> Iterator[tuple[str, Location]]:
    """The keys of `inputs` that the `compute_loss` of the script needs."""
    loss = trainer_methods.own_method(run, "compute_loss")
    parameters = [each.arg for each in loss.node.args.args] if loss is not None else []
    if loss is not None and len(parameters) >= 3:
        yield from script_text.keys_always_read(pipeline, loss, parameters[2])
