"""A model is trained, but the script ends without saving or using it.

Checkpoints are disabled, and no other code saves the weights. They are lost when the script ends, and the training has
to be repeated.

## Bad

    args = TrainingArguments("out", save_strategy="no")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()  # <- unsaved-model

## Good

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

## When it is fine

The script saves the weights itself:

    args = TrainingArguments("out", save_strategy="no")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()
    trainer.save_model()

A run may serve to measure a metric only:

    args = TrainingArguments("out", save_strategy="no")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
    )
    trainer.train()
    print(trainer.evaluate())

A function may return the model to its caller:

    def fit(model):
        args = TrainingArguments("out", save_strategy="no")
        trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
        trainer.train()
        return trainer.model

    fitted = fit(model)

## Fix

Asks first: checkpoints need disk space and time, and `trainer.save_model()` at the end may be enough.

## References

Transformers documentation, `TrainingArguments.save_strategy`. Measured on transformers 5.23: a run of 3 steps leaves
`checkpoint-3` with "steps" and "epoch", and no checkpoint with "no".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, script_text, trainer_methods
from lintrain.pipeline import blocks
from lintrain.pipeline.values.python import Value, is_missing
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

SAVES_OR_USES = lazy_pattern(
    r"save|push|upload|export|dump|write|store|predict|evaluate|generate|infer|benchmark|search|test|log_model|pipeline"
)
"""Names of functions that save a model, use it, or measure it."""

SAVING_METHODS = {
    "train",
    "_save",
    "save_model",
    "_save_checkpoint",
    "_maybe_log_save_evaluate",
    "_inner_training_loop",
}


class UnsavedModel(Rule):
    level = Level.WARNING
    judges_whole_script = True
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not pipeline.runs or pipeline.source.notebook is not None or len(pipeline.sources) > 1:
            return
        if _saves_or_uses(pipeline):
            return
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.train_calls or run.overrides & SAVING_METHODS or not run.is_plain:
                continue
            if _is_never_saved(settings) and is_missing(run.value("callbacks")) and _is_unused(pipeline, run):
                yield self._report(run, settings)

    def _report(self, run: TrainerRun, settings: TrainingArguments) -> Finding:
        saving = evaluation_schedule.saving_strategy(settings)
        return self.finding(
            run.train_calls[-1],
            "the trained model is neither saved nor used, and checkpoints are disabled",
            related=[
                *([Related(saving.location, "disables checkpoints", "setting")] if saving and saving.location else []),
                *([Related(settings.origin, "created here", "arguments")] if settings.origin else []),
            ],
            help="call `trainer.save_model()` after training, or remove `save_strategy`",
            subject="save_strategy",
        )

    # A run suspects nothing by itself: it ends at the training call, and what follows may save or use the model.
    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        strategy = evidence.arguments.get("save_strategy")
        if not isinstance(strategy, str):
            return Verdict.inconclusive("the run did not show its `save_strategy`")
        if strategy != "no":
            return Verdict.refuted(f'with `save_strategy="{strategy}"` the run saves at least 1 checkpoint')
        return Verdict.confirmed(f'with `save_strategy="{strategy}"` the run saves no checkpoint')

    def fix(self, finding: Finding) -> fixes.Fix | None:
        made = finding.with_role("arguments")
        if not made:
            return None
        return fixes.Fix.of(
            "remove `save_strategy`", fixes.RemoveArgument(made[0].location, "save_strategy"), safe=False
        )


def _is_never_saved(settings: TrainingArguments) -> bool:
    saving, evaluating = (
        evaluation_schedule.saving_strategy(settings),
        evaluation_schedule.evaluation_strategy(settings),
    )
    is_off = saving is not None and saving.value == "no" and saving.location is not None
    is_for_metrics = (
        evaluating is None or evaluating.value != "no" or not evaluation_schedule.is_left_out(settings, "max_steps")
    )
    return (
        is_off
        and not is_for_metrics
        and evaluation_schedule.is_left_out(settings, "push_to_hub")
        and settings.is_complete
    )


def _is_unused(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether the trainer is only used to train, and the model is not used afterwards."""
    source, trained = pipeline.source, run.train_calls[-1]
    names, owners = _names_of(pipeline, run.value("model")), _names_of(pipeline, run)
    uses = [use.location for name in names for use in script_text.uses_of(source, name)]
    uses += [use for owner in owners for use in script_text.attribute_uses(source, owner, "model")]
    ends = {id(scope): location.end_line for scope, location in blocks.way_out(pipeline, trained)}
    is_named_later = any(use.line > ends.get(id(blocks.scope_of(pipeline, use)), trained.end_line) for use in uses)
    return bool(names) and trainer_methods.stays_in_script(pipeline, run) and not is_named_later


def _names_of(pipeline: Pipeline, value: Value) -> set[str]:
    """All names of a value, including those in the functions that it is passed to."""
    return blocks.spread_names(pipeline.source, {binding.name for binding in pipeline.names_of(value)})[0]


def _saves_or_uses(pipeline: Pipeline) -> bool:
    """Whether the script calls a function whose name contains a word for saving, using or measuring a model."""
    return any(SAVES_OR_USES.search(name) for name in script_text.called_names(pipeline.source))
