"""Evaluation is asked for, and there is no data set to evaluate on.

With an `eval_strategy` the Trainer wants an `eval_dataset` when it is made. A plain `trainer.evaluate()` wants one as
well, and says so only when the training is over.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
    pairs = load_dataset("glue", "mrpc")
    pairs = pairs.map(lambda batch: tokenizer(batch["sentence1"], batch["sentence2"], truncation=True), batched=True)
    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)  # <- missing-eval-dataset

Where there are several splits to choose from:

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- missing-eval-dataset

## Good

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
    pairs = load_dataset("glue", "mrpc")
    pairs = pairs.map(lambda batch: tokenizer(batch["sentence1"], batch["sentence2"], truncation=True), batched=True)
    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model, args, train_dataset=pairs["train"], data_collator=collator, eval_dataset=pairs["validation"]
    )

One of several splits:

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
    )

## When it is fine

Evaluation may be given its own data set when it is called, or the trainer makes its own loader:

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()
    trainer.evaluate(tokenized["validation_matched"])

## Fix

Asks first: an evaluation takes time. Offered where one split beside the training rows is named for validation.

## References

Transformers documentation, `TrainingArguments.eval_strategy` and `Trainer.evaluate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import DatasetDict
from lintrain.pipeline.values.python import Absent, is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

OWN_DATA = {"get_eval_dataloader", "evaluate", "evaluation_loop", "_get_dataloader", "get_test_dataloader"}
RAISED = ("you didn't pass an `eval_dataset`", "requires an eval_dataset")


class MissingEvalDataset(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            if not run.is_plain or not is_missing(run.value("eval_dataset")) or run.overrides & OWN_DATA:
                continue
            asked = evaluation_schedule.evaluation_strategy(run.settings) if run.settings else None
            if asked is not None and asked.value != "no":
                yield self._at_construction(pipeline, run, asked)
            else:
                yield from self._at_calls(pipeline, run)

    def _at_construction(self, pipeline: Pipeline, run: TrainerRun, asked: evaluation_schedule.Strategy) -> Finding:
        return self.finding(
            run.construction,
            f"`{run.name}` is to evaluate (`{asked.name}`) and has no `eval_dataset`",
            related=asked.reason("asks for evaluation"),
            help='pass the validation split as `eval_dataset`, or set `eval_strategy="no"`',
            subject="eval_dataset",
            facts={"strategy": asked.name, "rows": _held_out(pipeline, run)},
        )

    def _at_calls(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding]:
        for event in pipeline.acts(Act.EVALUATE):
            wanted = event.details.get("eval_dataset")
            if event.subject is run and isinstance(wanted, Absent):
                yield self.finding(
                    event.location,
                    f"this evaluates `{run.name}`, which has no `eval_dataset`",
                    related=[Related(run.construction, "made here without one", "origin", run.text)],
                    help="pass the validation split as `eval_dataset`, here or to the trainer",
                    subject="eval_dataset",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the trainer is to evaluate: 0 data sets for it")
        splits = evidence.given_splits.get("eval_dataset", ())
        if splits:
            rows = sum(split.rows or 0 for split in splits)
            return Verdict.refuted(f"{len(splits)} data sets with {rows} rows to evaluate on", rows=rows)
        if evidence.passed("construction") and "strategy" in finding.facts:
            return Verdict.refuted("the trainer was made with 0 evaluation data sets, and nothing failed")
        if evidence.passed("construction"):
            return Verdict.inconclusive(
                "the trainer was made with 0 evaluation data sets; a probe ends before this call"
            )
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        rows = finding.facts.get("rows")
        if not isinstance(rows, str) or "strategy" not in finding.facts:
            return None
        return fixes.Fix.of(
            f"evaluate on `{rows}`", fixes.AddArgument(finding.location, "eval_dataset", rows), safe=False
        )


HELD_OUT = ("validation", "valid", "dev", "eval", "val")


def _held_out(pipeline: Pipeline, run: TrainerRun) -> str | None:
    """The code of the only split for validation beside the one that is trained on."""
    given = run.arguments.get("train_dataset")
    whole = re.fullmatch(r"""([A-Za-z_]\w*)\[(["'])train\2\]""", given.text) if given is not None else None
    if whole is None:
        return None
    latest = [binding.value for binding in pipeline.bindings if binding.name == whole[1]][-1:]
    if not latest or not isinstance(latest[0], DatasetDict):
        return None
    names = [name for name in latest[0].splits if name.startswith(HELD_OUT)] if latest[0].is_complete else []
    return f"{whole[1]}[{whole[2]}{names[0]}{whole[2]}]" if len(names) == 1 else None
