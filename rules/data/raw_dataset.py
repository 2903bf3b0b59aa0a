"""A text data set that is not tokenized is passed to a Trainer.

Trainer removes all columns that the model's `forward` does not accept. A data set that is not tokenized keeps only its
labels, and the first step raises an error about `input_ids` that does not mention the data set.

## Bad

    raw = load_dataset("glue", "mnli")
    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=raw["train"], processing_class=tokenizer)  # <- raw-dataset

The rule checks training and evaluation data separately:

    train = tokenized["train"]
    trainer = Trainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=raw["validation_matched"],  # <- raw-dataset
        processing_class=tokenizer,
    )
    trainer.evaluate()

## Good

    raw = load_dataset("glue", "mnli")
    tokenized = raw.map(tokenize, batched=True)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)

and

    train = tokenized["train"]
    trainer = Trainer(
        model,
        args,
        train_dataset=train,
        eval_dataset=tokenized["validation_matched"],
        processing_class=tokenizer,
    )
    trainer.evaluate()

## When it is fine

A collator may tokenize, if Trainer keeps the text columns:

    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=raw["train"], data_collator=tokenize_rows)

A transform may tokenize the rows when they are read:

    lazy = raw["train"].with_transform(lambda rows: tokenize(rows) | {"labels": rows["label"]})
    args = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(model, args, train_dataset=lazy, processing_class=tokenizer)

## Fix

Asks first: the fix passes the only tokenized copy in the script, which may not be the intended one.

## References

transformers#22119, transformers#29458, transformers#25054; Hugging Face course, chapter 8 "Debugging the training
pipeline".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import Instance
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

OTHER_INPUTS = frozenset({Task.IMAGE_CLASSIFICATION, Task.AUDIO_CLASSIFICATION})


class RawDataset(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for given in run_data.given_datasets(pipeline):
            if run_data.collates_plainly(given.run) and self._is_raw(pipeline, given):
                yield self._report(pipeline, given)

    def _is_raw(self, pipeline: Pipeline, given: run_data.Given) -> bool:
        model = given.run.value("model")
        if isinstance(model, Instance) or (given.run.model and given.run.model.task in OTHER_INPUTS):
            return False
        for dataset in given.datasets:
            is_shown = run_data.is_read_as_text(dataset) and run_data.has_tokenized_copy(pipeline, dataset)
            inputs = run_data.installed_inputs(given.run)
            kept = (inputs or frozenset()) - run_data.LABEL_COLUMNS
            is_own = run_data.has_own_model(given.run) if inputs is None else bool(kept & set(dataset.columns or {}))
            if not is_shown and (is_own or not run_data.is_text(dataset)):
                return False
        return True

    def _report(self, pipeline: Pipeline, given: run_data.Given) -> Finding:
        dataset = given.datasets[0]
        columns = ", ".join(run_data.text_columns(dataset)[:4])
        copies = run_data.tokenized_copies(pipeline, dataset, given.argument.location)
        note = f"created here and not tokenized: text in {columns}"
        origins = [Related(step.location, note, "origin", step.text) for step in dataset.steps[:1]]
        return self.finding(
            given.argument.location,
            f"{given.text} is passed to {given.run.name} without token ids",
            related=[*origins, *copies],
            why="Trainer removes columns that the model does not accept, so only the labels are left",
            help=f"pass `{copies[0].text}`" if len(copies) == 1 else "tokenize it with `map` and pass the result",
            subject=given.parameter,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        failure, call = evidence.failure, evidence.call
        # Where code of the script fails below the call, that code gets the text, and may make the token ids.
        if failure is None or failure.location is None or call is None or not call.meets(failure.location):
            return
        for split in evidence.splits if not evidence.objects.dropped else ():
            batch = evidence.batch(split.argument)
            is_made = batch is not None and any(batch.tensor(name) for name in run_data.MODEL_INPUTS)
            if any(column.kind == "text" for column in split.columns) and not is_made:
                yield self.finding(
                    split.given_at or evidence.location,
                    f"the rows of `{split.argument}` are text without token ids",
                    why="Trainer removes columns that the model does not accept, so only the labels are left",
                    help="tokenize them with `map` and pass the result",
                    subject=split.argument,
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        split = evidence.split(finding.subject or "train_dataset")
        if split is None:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        known = set(evidence.model.inputs) & run_data.MODEL_INPUTS if evidence.model else run_data.MODEL_INPUTS
        inputs = sorted(split.column_names & known)
        count = len(split.columns)
        if inputs:
            return Verdict.refuted(
                f"{len(inputs)} of {count} columns are inputs of the model: {', '.join(inputs)}", columns=[*inputs]
            )
        if not split.columns:
            return Verdict.inconclusive("the columns of this data set are not known")
        names = sorted(split.column_names)
        text = f"none of the {count} columns is an input of the model: {', '.join(names)}"
        return Verdict.confirmed(text, columns=[*names])

    def fix(self, finding: Finding) -> fixes.Fix | None:
        copies = finding.with_role("tokenized copy")
        if len(copies) != 1:
            return None
        return fixes.Fix.of(f"pass `{copies[0].text}`", fixes.Replace(finding.location, copies[0].text), safe=False)
