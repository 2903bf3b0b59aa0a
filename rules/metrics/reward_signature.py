"""A reward function of GRPO does not accept what the trainer passes, or returns no list of rewards.

`GRPOTrainer` calls it with `prompts`, `completions`, `completion_ids` and each further column of the data set, all by
name. A function without `**kwargs` raises a TypeError at the first step, after the first completions were generated. So
does one that returns a single number: the trainer expects a list with a reward for each completion.

## Bad

    def reward(completions):  # <- reward-signature
        return [float(len(each)) for each in completions]

    prompts = Dataset.from_dict({"prompt": ["a", "b"]})
    trainer = trl.GRPOTrainer("gpt2", reward_funcs=reward, train_dataset=prompts)
    trainer.train()

One number for all completions:

    def reward(completions, **kwargs):  # <- reward-signature
        return sum(len(each) for each in completions) / len(completions)

    prompts = Dataset.from_dict({"prompt": ["a", "b"]})
    trainer = trl.GRPOTrainer("gpt2", reward_funcs=reward, train_dataset=prompts)
    trainer.train()

## Good

    def reward(completions, **kwargs):
        return [float(len(each)) for each in completions]

    prompts = Dataset.from_dict({"prompt": ["a", "b"]})
    trainer = trl.GRPOTrainer("gpt2", reward_funcs=reward, train_dataset=prompts)
    trainer.train()

## When it is fine

A decorator may change what the function accepts:

    from rewards import scored

    @scored
    def reward(completions):
        return [float(len(each)) for each in completions]

    prompts = Dataset.from_dict({"prompt": ["a", "b"]})
    trainer = trl.GRPOTrainer("gpt2", reward_funcs=[reward], train_dataset=prompts)
    trainer.train()

## Fix

None: the names of further columns may be missing as well.

## References

TRL documentation, "GRPO Trainer", using a custom reward function; `GRPOTrainer._calculate_rewards` of 1.16.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import trainer_methods
from lintrain.pipeline.values.python import Function, Sequence, Value
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location

PASSED = ("prompts", "completions", "completion_ids")
"""What every version of the trainer passes by name since TRL 0.16; newer ones pass more."""


class RewardSignature(Rule):
    level = Level.ERROR
    keywords = "GRPOTrainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run.construction) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                f"this reward function does not accept `{missing}`, which the trainer passes",
                related=[Related(construction, "passed to the trainer here", "trainer")],
                help="add `**kwargs` to its parameters",
            )
            for argument, construction in given
            for function in (_functions(argument.value) if argument else ())
            if (missing := _missing(function))
        )
        yield from self._of_one_number(pipeline)

    def _of_one_number(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run.construction) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                "this reward function returns one number, and not one for each completion",
                related=[Related(construction, "passed to the trainer here", "trainer")],
                help="return a list with a reward for each completion",
            )
            for argument, construction in given
            for function in (_functions(argument.value) if argument else ())
            if not _missing(function) and trainer_methods.returns_one_number(function)
        )


def _functions(value: Value) -> list[Function]:
    items = value.items if isinstance(value, Sequence) else [value]
    return [item for item in items if isinstance(item, Function) and not item.is_wrapped and not item.decorators]


def _missing(function: Function) -> str:
    """The first argument that a function certainly does not accept; empty if it accepts any name."""
    given = function.node.args
    if given.kwarg is not None:
        return ""
    names = {each.arg for each in (*given.args, *given.kwonlyargs)}
    return next((name for name in PASSED if name not in names), "")
