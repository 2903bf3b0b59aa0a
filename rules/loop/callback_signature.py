"""A callback's method does not accept what the Trainer passes to it.

The Trainer calls each event with `args`, `state` and `control`, and by name with the model, the processing class, the
optimizer, the schedule and the loaders; `on_evaluate` also gets `metrics`, and `on_log` gets `logs`. A method without
`**kwargs` raises a TypeError at its first event, which for `on_evaluate` is the end of the first evaluation.

## Bad

    class Scores(TrainerCallback):
        def on_evaluate(self, args, state, control, metrics):  # <- callback-signature
            print(state.epoch, metrics["eval_loss"])

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[Scores()],
    )
    # raises TypeError

## Good

    class Scores(TrainerCallback):
        def on_evaluate(self, args, state, control, metrics=None, **kwargs):
            print(state.epoch, metrics["eval_loss"])

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[Scores()],
    )

## When it is fine

A method that the Trainer does not call may take what its own callers pass:

    class Scores(TrainerCallback):
        def show(self, metrics):
            print(metrics["eval_loss"])

        def on_evaluate(self, args, state, control, **kwargs):
            self.show(kwargs["metrics"])

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[Scores()],
    )

## Fix

None: the order of the parameters may be wrong as well.

## References

`CallbackHandler.call_event` of transformers 5.23; Transformers documentation, "Callbacks".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.rule import Finding, Level, Pipeline, Rule, Source

BASES = frozenset({"TrainerCallback", "transformers.TrainerCallback", "transformers.trainer_callback.TrainerCallback"})
GIVEN = ("args", "state", "control")
PASSED = ("model", "optimizer", "lr_scheduler", "train_dataloader", "eval_dataloader")
"""What every version passes by name; the tokenizer has had two names."""

EVENTS = frozenset(
    {"on_init_end", "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_step_begin", "on_step_end"}
    | {"on_substep_end", "on_optimizer_step", "on_pre_optimizer_step", "on_evaluate", "on_predict", "on_save", "on_log"}
    | {"on_prediction_step", "on_push_begin"}
)


class CallbackSignature(Rule):
    level = Level.ERROR
    keywords = "TrainerCallback & on_"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for source in dict.fromkeys(pipeline.sources.values()):
            for owner in source.nodes_of(ast.ClassDef):
                if any(ast.unparse(base) in BASES for base in owner.bases):
                    yield from self._of_class(source, owner)

    def _of_class(self, source: Source, owner: ast.ClassDef) -> Iterator[Finding]:
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in EVENTS or method.decorator_list:
                continue
            if (problem := _problem(method.args)) is not None:
                at = source.location(method)
                yield self.finding(
                    at.__class__(at.path, at.line, at.column, at.line, at.column + len(f"def {method.name}")),
                    f"`{method.name}` does not accept `{problem}`, which the Trainer passes",
                    help="write `(self, args, state, control, **kwargs)`",
                    subject=method.name,
                )


def _problem(given: ast.arguments) -> str | None:
    """The first argument that a method certainly does not accept; None if there is none."""
    positional = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    if given.vararg is None and len(positional) < len(GIVEN):
        return GIVEN[len(positional)]
    if given.kwarg is not None:
        return None
    named = {*positional[len(GIVEN) :], *(each.arg for each in given.kwonlyargs)}
    return next((name for name in PASSED if name not in named), None)
