"""Evaluation is enabled, but there is no data set to evaluate on.

With an `eval_strategy`, the Trainer requires an `eval_dataset` when it is created. A plain `trainer.evaluate()` needs
one too, but raises the error only after training is over.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)
    pairs = load_dataset("glue", "mrpc")
    pairs = pairs.map(lambda batch: tokenizer(batch["sentence1"], batch["sentence2"], truncation=True), batched=True)
    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)  # <- missing-eval-dataset

With several splits to choose from:

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

`evaluate` may receive its own data set, or the trainer may create its own loader:

    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()
    trainer.evaluate(tokenized["validation_matched"])

## Fix

Asks first: evaluation takes time. Offered if exactly one other split has a name for validation.

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
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

OWN_DATA = {"get_eval_dataloader", "evaluate", "evaluation_loop", "_get_dataloader", "get_test_dataloader"}
RAISED = ("you didn't pass an `eval_dataset`", "requires an eval_dataset")


LIKE_TRAINER = frozenset(f"trl.{name}Trainer" for name in ("CPO", "DPO", "GRPO", "KTO", "ORPO", "Reward", "SFT"))
"""Trainers of TRL whose evaluation is that of the Trainer of transformers, which refuses to be created without rows."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The argument that enables evaluation, and the code of the validation split, if there is exactly one."""

    strategy: str
    rows: str | None


class MissingEvalDataset(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            if (
                not (run.is_plain or run.path in LIKE_TRAINER)
                or not is_missing(run.value("eval_dataset"))
                or run.overrides & OWN_DATA
            ):
                continue
            asked = evaluation_schedule.evaluation_strategy(run.settings) if run.settings else None
            if asked is not None and asked.value != "no":
                yield self._at_construction(pipeline, run, asked)
            else:
                yield from self._at_calls(pipeline, run)

    def _at_construction(
        self, pipeline: Pipeline, run: TrainerRun, asked: evaluation_schedule.Strategy
    ) -> Finding[Claim]:
        return self.finding(
            run.construction,
            f"`{asked.name}` is set, but `{run.name}` has no `eval_dataset`",
            related=asked.reason("enables evaluation"),
            help='pass the validation split as `eval_dataset`, or set `eval_strategy="no"`',
            subject="eval_dataset",
            claim=Claim(asked.name, _held_out(pipeline, run)),
        )

    def _at_calls(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding[Claim]]:
        for event in pipeline.acts(Act.EVALUATE):
            wanted = event.details.get("eval_dataset")
            if event.subject is run and isinstance(wanted, Absent):
                yield self.finding(
                    event.location,
                    f"this evaluates with `{run.name}`, which has no `eval_dataset`",
                    related=[Related(run.construction, "created here without one", "origin", run.text)],
                    help="pass the validation split as `eval_dataset`, here or to the trainer",
                    subject="eval_dataset",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"`{stage.failure.type}`: the trainer has no data set to evaluate on")
        splits = evidence.given_splits.get("eval_dataset", ())
        if splits and finding.claim is not None and evidence.never_came_to(finding.location):
            return Verdict.inconclusive("another trainer was measured, before this one is made")
        if splits:
            rows = sum(split.rows or 0 for split in splits)
            return Verdict.refuted(f"the trainer has {rows} rows to evaluate on", rows=rows)
        if evidence.passed("construction") and finding.claim is not None:
            return Verdict.refuted("the trainer was created without an `eval_dataset`, and nothing failed")
        if evidence.passed("construction"):
            return Verdict.inconclusive(
                "the trainer was created without an `eval_dataset`; a probe ends before this call"
            )
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        rows = finding.claim.rows if finding.claim else None
        if rows is None:
            return None
        return fixes.Fix.of(
            f"evaluate on `{rows}`", fixes.AddArgument(finding.location, "eval_dataset", rows), safe=False
        )


HELD_OUT = ("validation", "valid", "dev", "eval", "val")


def _held_out(pipeline: Pipeline, run: TrainerRun) -> str | None:
    """The code of the only validation split besides the one that is trained on."""
    given = run.arguments.get("train_dataset")
    whole = re.fullmatch(r"""([A-Za-z_]\w*)\[(["'])train\2\]""", given.text) if given is not None else None
    if whole is None:
        return None
    latest = [binding.value for binding in pipeline.bindings if binding.name == whole[1]][-1:]
    if not latest or not isinstance(latest[0], DatasetDict):
        return None
    names = [name for name in latest[0].splits if name.startswith(HELD_OUT)] if latest[0].is_complete else []
    return f"{whole[1]}[{whole[2]}{names[0]}{whole[2]}]" if len(names) == 1 else None
