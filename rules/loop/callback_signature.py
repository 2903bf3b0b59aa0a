"""A callback's method does not accept what the Trainer passes to it.

The Trainer calls each event with `args`, `state` and `control`, and by name with the model, the processing class, the
optimizer, the schedule and the loaders; `on_evaluate` also gets `metrics`, and `on_log` gets `logs`. A method without
`**kwargs` raises a TypeError at its first event, which for `on_evaluate` is the end of the first evaluation.

A class that is no `TrainerCallback` needs a method for every event, because the Trainer looks each of them up.

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

A class without the base has none of the other methods:

    class Prints:
        def on_log(self, args, state, control, logs=None, **kwargs):
            print(logs)

    trainer = Trainer(
        model,
        TrainingArguments("out"),
        train_dataset=tokenized["train"],
        data_collator=collator,
        callbacks=[Prints()],  # <- callback-signature
    )
    # raises AttributeError

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

from collections.abc import Iterator

from lintrain.analysis import callback_methods
from lintrain.rule import Finding, Level, Pipeline, Rule


class CallbackSignature(Rule):
    level = Level.ERROR
    keywords = "TrainerCallback|add_callback|callbacks & on_ & control"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for source in dict.fromkeys(pipeline.sources.values()):
            for refusal in callback_methods.refusals(source):
                yield self.finding(
                    refusal.location,
                    f"`{refusal.event}` does not accept `{refusal.argument}`, which the Trainer passes",
                    help="write `(self, args, state, control, **kwargs)`",
                    subject=refusal.event,
                )
            for location, name, event in callback_methods.strangers(source):
                yield self.finding(
                    location,
                    f"`{name}` is no `TrainerCallback`, and has no `{event}`",
                    why="The Trainer looks up a method for every event, and raises AttributeError at the first that is"
                    " missing. `TrainerCallback` has an empty one for each.",
                    help=f"write `class {name}(TrainerCallback):`",
                    subject=name,
                )
