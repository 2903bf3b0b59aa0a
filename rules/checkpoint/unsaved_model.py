"""A model is trained, and the script ends without saving it or using it.

Checkpoints are switched off, and nothing else writes the weights. When the script ends they are gone, and the run has
to be made again.

## Bad

    args = TrainingArguments("out", save_strategy="no")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()  # <- unsaved-model

## Good

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

## When it is fine

The weights may be saved by the script:

    args = TrainingArguments("out", save_strategy="no")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()
    trainer.save_model()

A run may be made for its numbers, and a model may be used at once:

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

So may one of a few steps, and one that hands its model on:

    def fit(model):
        args = TrainingArguments("out", save_strategy="no")
        trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
        trainer.train()
        return trainer.model

    fitted = fit(model)

## Fix

Asks first: checkpoints cost space and time, and `trainer.save_model()` at the end may be enough.

## References

Transformers documentation, `TrainingArguments.save_strategy`. Measured on transformers 5.23: a run of 3 steps leaves
`checkpoint-3` with "steps" and "epoch", and nothing with "no".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, trainer_methods
from lintrain.pipeline import blocks, callers
from lintrain.pipeline.values.python import Value, is_missing
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

MAY_KEEP = lazy_pattern(
    r"save|push|upload|export|dump|write|store|predict|evaluate|generate|infer|benchmark|search|test|log_model|pipeline"
)
"""Words of code that saves a model, uses it, or makes a run for other reasons."""

OWN_WAYS = {"train", "_save", "save_model", "_save_checkpoint", "_maybe_log_save_evaluate", "_inner_training_loop"}


class UnsavedModel(Rule):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not pipeline.runs or pipeline.source.notebook is not None or len(pipeline.sources) > 1:
            return
        if _keeps_something(pipeline):
            return
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.train_calls or run.overrides & OWN_WAYS or not run.is_plain:
                continue
            if _is_never_saved(settings) and is_missing(run.value("callbacks")) and _is_left(pipeline, run):
                yield self._report(run, settings)

    def _report(self, run: TrainerRun, settings: TrainingArguments) -> Finding:
        saving = evaluation_schedule.saving_strategy(settings)
        return self.finding(
            run.train_calls[-1],
            "the trained model is neither saved nor used, and no checkpoint is written",
            related=[
                *([Related(saving.location, "no checkpoints", "setting")] if saving and saving.location else []),
                *([Related(settings.origin, "made here", "arguments")] if settings.origin else []),
            ],
            help="call `save_model()` on the trainer when it has trained, or leave `save_strategy` out",
            subject="save_strategy",
            facts={"line": run.train_calls[-1].line},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        strategy = evidence.arguments.get("save_strategy")
        if not isinstance(strategy, str):
            return Verdict.inconclusive("how the run saves was not seen: 0 checkpoints are known of")
        if strategy != "no":
            return Verdict.refuted(f"checkpoints are saved by `{strategy}`, and 1 at the end")
        return Verdict.confirmed(f"checkpoints are saved by `{strategy}`: 0 of them in the whole run")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        made = finding.with_role("arguments")
        if not made:
            return None
        return fixes.Fix.of(
            "leave `save_strategy` out", fixes.RemoveArgument(made[0].location, "save_strategy"), safe=False
        )


def _is_never_saved(settings: TrainingArguments) -> bool:
    saving, evaluating = (
        evaluation_schedule.saving_strategy(settings),
        evaluation_schedule.evaluation_strategy(settings),
    )
    is_off = saving is not None and saving.value == "no" and saving.location is not None
    is_for_numbers = (
        evaluating is None or evaluating.value != "no" or not evaluation_schedule.is_left_out(settings, "max_steps")
    )
    return (
        is_off
        and not is_for_numbers
        and evaluation_schedule.is_left_out(settings, "push_to_hub")
        and settings.is_complete
    )


def _is_left(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether nothing names the trainer but to train, and nothing names the model when it has trained."""
    source, trained = pipeline.source, run.train_calls[-1]
    names = _names_of(pipeline, run.value("model"))
    owners = _names_of(pipeline, run)
    named: list[ast.expr] = [node for node in source.nodes_of(ast.Name) if node.id in names]
    named += [node for node in source.nodes_of(ast.Attribute) if node.attr == "model" and _name(node.value) in owners]
    ends = {id(scope): location.end_line for scope, location in callers.way_out(pipeline, trained)}
    is_named_later = any(
        node.lineno > ends.get(id(blocks.scope_of(pipeline, source.location(node))), trained.end_line) for node in named
    )
    return bool(names) and trainer_methods.stays_in_script(pipeline, run) and not is_named_later


def _names_of(pipeline: Pipeline, value: Value) -> set[str]:
    """All names of a thing, in the functions that it is handed to, too."""
    return callers.spread_names(pipeline.source, {binding.name for binding in pipeline.names_of(value)})[0]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _keeps_something(pipeline: Pipeline) -> bool:
    """Whether any method or function of the script is called after saving, using or measuring a model."""
    for node in pipeline.source.nodes_of(ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else _name(called)
        if MAY_KEEP.search(name):
            return True
    return False
