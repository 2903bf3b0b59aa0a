"""Evaluation is configured, but never runs.

An evaluation set, a metric function or `eval_steps` does not enable evaluation: `eval_strategy` is "no" by default. The
run ends without any score on unseen data.

## Bad

    args = TrainingArguments("out", eval_steps=100)
    trainer = Trainer(  # <- unused-eval-settings
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.train()

## Good

    args = TrainingArguments("out", eval_steps=100, eval_strategy="steps")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.train()

## When it is fine

The script may call `evaluate` itself after training:

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    print(trainer.evaluate())

A trainer that is returned may be evaluated by its caller, "no" may be set on purpose, and an evaluation set alone
requests nothing:

    def build(model):
        return Trainer(
            model,
            args,
            train_dataset=tokenized["train"],
            eval_dataset=tokenized["validation_matched"],
            compute_metrics=compute_metrics,
        )

    plain = TrainingArguments("out", eval_strategy="no")
    trainer = Trainer(
        model,
        plain,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    other = Trainer(
        model,
        TrainingArguments("other"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
    )
    other.train()

## Fix

Asks first: evaluation takes time, and the arguments may be leftovers.

## References

Transformers documentation, `TrainingArguments.eval_strategy`. Measured on transformers 5.23: `eval_steps=1` alone
leaves the strategy at "no", and the metric function is never called.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, script_text, trainer_methods
from lintrain.pipeline.values.python import Class, Instance, Sequence, Value, is_missing, is_true
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

GIVEN = ("compute_metrics", "eval_dataset")
SETTINGS = ("eval_steps", "eval_delay", "per_device_eval_batch_size")
MEANT = frozenset({"eval_steps", "per_device_eval_batch_size"})
"""Settings of which no training without an evaluation makes use."""

EVALUATING = frozenset(
    {"evaluate", "predict", "evaluation_loop", "prediction_loop", "hyperparameter_search", "should_evaluate"}
)
OWN_EVALUATION = frozenset(
    {"train", "_inner_training_loop", "training_step", "_maybe_log_save_evaluate", "compute_loss", "log"}
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The strategy to evaluate by."""

    strategy: str


class UnusedEvalSettings(Rule[Claim]):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if _evaluates_somewhere(pipeline):
            return
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.train_calls or run.overrides & OWN_EVALUATION:
                continue
            is_off = _never_evaluates(settings) and _never_ask(pipeline, run.value("callbacks"))
            given = [name for name in GIVEN if name in run.arguments and not is_missing(run.value(name))]
            is_meant = "compute_metrics" in given or not MEANT.isdisjoint(settings.locations)
            if is_off and given and is_meant and trainer_methods.stays_in_script(pipeline, run):
                yield self._report(run, settings, given)

    def _report(self, run: TrainerRun, settings: TrainingArguments, given: list[str]) -> Finding[Claim]:
        locations = [(name, settings.locations[name]) for name in SETTINGS if name in settings.locations]
        asked = [Related(location, f"`{name}` does not enable evaluation", "setting") for name, location in locations]
        steps = "steps" if "eval_steps" in settings.locations else "epoch"
        made = [Related(settings.origin, '`eval_strategy` is "no" by default', "arguments")] if settings.origin else []
        return self.finding(
            run.construction,
            f"`{given[0]}` is set, but evaluation never runs",
            related=[*made, *asked],
            help=f'add `eval_strategy="{steps}"`, or call `trainer.evaluate()` after training',
            subject="eval_strategy",
            claim=Claim(steps),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation = evidence.evaluation
        is_meant = evaluation is not None and evaluation.has_metric_function and evidence.split("eval_dataset")
        # The script may evaluate by a call of its own, or have switched the evaluation off.
        is_written = evidence.arguments.get("eval_strategy_is_written") is not False
        if (
            is_meant
            and not is_written
            and "evaluation" not in evidence.locations
            and not OWN_EVALUATION & set(evidence.overrides)
        ):
            yield self.finding(
                evidence.location,
                "`compute_metrics` is set, but evaluation never runs",
                help='add `eval_strategy="epoch"`, or call `trainer.evaluate()` after training',
                subject="eval_strategy",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        strategy = evidence.arguments.get("eval_strategy", evidence.arguments.get("evaluation_strategy"))
        if not isinstance(strategy, str):
            return Verdict.inconclusive("the training arguments were not recorded")
        splits = evidence.given_splits.get("eval_dataset", ())
        rows = sum(split.rows or 0 for split in splits)
        if strategy != "no":
            return Verdict.refuted(f"`eval_strategy` is `{strategy}`, for {rows} rows")
        return Verdict.confirmed(f"`eval_strategy` is `no`: the {rows} evaluation rows are never used")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        made = finding.with_role("arguments")
        if not made or finding.claim is None:
            return None
        code = f'"{finding.claim.strategy}"'
        return fixes.Fix.of(
            "evaluate during training", fixes.AddArgument(made[0].location, "eval_strategy", code), safe=False
        )


def _never_evaluates(settings: TrainingArguments) -> bool:
    """Whether the arguments certainly leave evaluation off, and no other setting enables it."""
    strategy = evaluation_schedule.evaluation_strategy(settings)
    is_default = strategy is not None and strategy.location is None and settings.is_complete
    is_needed_otherwise = is_true(settings.value("load_best_model_at_end")) or not evaluation_schedule.is_left_out(
        settings, "eval_on_start"
    )
    return is_default and not is_needed_otherwise


def _never_ask(pipeline: Pipeline, callbacks: Value) -> bool:
    """Whether no callback asks for an evaluation: there are none, or all are of classes of the script."""
    if is_missing(callbacks):
        # The trainer to which a callback is added may be unknown.
        return "add_callback" not in script_text.attribute_names(pipeline.source)
    if not isinstance(callbacks, Sequence) or not callbacks.is_complete:
        return False
    return all(isinstance(each, Instance | Class) for each in callbacks.items)


def _evaluates_somewhere(pipeline: Pipeline) -> bool:
    """Whether the script uses a method that evaluates, or asks a Trainer for an evaluation, anywhere."""
    return not script_text.attribute_names(pipeline.source).isdisjoint(EVALUATING)
