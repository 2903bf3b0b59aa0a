"""A reward function of GRPO does not accept what the trainer passes, or gives no reward to each completion.

`GRPOTrainer` calls it with `prompts`, `completions`, `completion_ids` and each further column of the data set, all by
name. A function without `**kwargs` raises a TypeError at the first step, after the first completions were generated.

So does one that needs a column that the data set does not have, and one that returns a single number: the trainer
expects a list with a reward for each completion.

A list that repeats one value raises no error, but the trainer subtracts the mean of a group from its rewards: what is
the same for all completions is subtracted, and trains nothing.

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

One value in a list as long as the completions:

    def reward(completions, **kwargs):  # <- reward-signature
        mean = sum(len(each) for each in completions) / len(completions)
        return [mean] * len(completions)

    prompts = Dataset.from_dict({"prompt": ["a", "b"]})
    trainer = trl.GRPOTrainer("gpt2", reward_funcs=reward, train_dataset=prompts)
    trainer.train()

A column that the data set does not have:

    def reward(completions, answer, **kwargs):  # <- reward-signature
        return [float(each in text) for text, each in zip(completions, answer)]

    prompts = Dataset.from_dict({"prompt": ["a", "b"], "solution": ["1", "2"]})
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

from lintrain.analysis import conversations, trainer_methods
from lintrain.pipeline.values.python import Function, Sequence, Value, is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location

PASSED = ("prompts", "completions", "completion_ids")
"""What every version of the trainer passes by name since TRL 0.16; newer ones pass more."""

PASSED_BY_NEW_TRAINERS = ("trainer_state", "log_extra", "log_metric", "environments", "completion_mask", "images")

NEVER_PASSED = {"prompt": "prompts", "completion": "completions"}
"""Names that the trainer does not pass on, not even where the data set has such a column, with those that it passes."""

WHY_NEEDED = (
    "The trainer passes its arguments and the columns of the data set by name. The call raises a TypeError for the "
    "missing argument at the first step, after the first completions were generated."
)
WHY_NUMBER = (
    "The trainer expects a list with a reward for each completion. The first step raises an error, after the first "
    "completions were generated."
)
WHY_VALUE = (
    "The trainer subtracts the mean of a group from its rewards, so nothing is left of a reward that is the same for "
    "all completions. It trains nothing, and no error is raised."
)
WHY_TEXT = (
    "Methods of texts, `re` and `float` raise an error for a list, at the first step. `in` and `len` look at the "
    "messages and not at their text, so the reward is wrong without an error."
)


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
        yield from self._of_other_names(pipeline)
        yield from self._of_absent_columns(pipeline)
        yield from self._of_one_number(pipeline)
        yield from self._of_one_value(pipeline)
        if conversations.writes_conversations(pipeline.source):
            yield from self._of_texts(pipeline)

    def _of_other_names(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run.construction) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                f"this reward function needs `{name}`, which the trainer never passes",
                related=[Related(construction, "passed to the trainer here", "trainer")],
                why=WHY_NEEDED,
                help=f"name the parameter `{NEVER_PASSED[name]}`, which has all of a batch",
            )
            for argument, construction in given
            for function in (_functions(argument.value) if argument else ())
            if not _missing(function) and (name := _never_passed(function))
        )

    def _of_absent_columns(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                f"this reward function needs `{name}`, which is no column of the data set",
                related=[Related(run.construction, "passed to the trainer here", "trainer")],
                why=WHY_NEEDED,
                help=f"add the column `{name}`, or name the parameter as the column is named",
            )
            for argument, run in given
            for function in (_functions(argument.value) if argument else ())
            if not _missing(function) and not _never_passed(function) and (name := _absent_column(function, run))
        )

    def _of_texts(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Uses of completions as texts, where the prompts are conversations."""
        given = [run.value("reward_funcs") for run in pipeline.runs if run.path.endswith(".GRPOTrainer")]
        yield from one_per_location(
            self.finding(
                trainer_methods.location_in(pipeline, function, used),
                "a completion is a list of messages here, and is used as a text",
                why=WHY_TEXT,
                help='read the text of the message: `completion[0]["content"]`',
            )
            for value in given
            for function in _functions(value)
            if (used := conversations.used_as_text(function)) is not None
        )

    def _of_one_number(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run.construction) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                "this reward function returns one number, and not one for each completion",
                related=[Related(construction, "passed to the trainer here", "trainer")],
                why=WHY_NUMBER,
                help="return a list with a reward for each completion",
            )
            for argument, construction in given
            for function in (_functions(argument.value) if argument else ())
            if not _missing(function)
            and (trainer_methods.returns_one_number(function) or trainer_methods.returns_one_item(function))
        )

    def _of_one_value(self, pipeline: Pipeline) -> Iterator[Finding]:
        runs = (run for run in pipeline.runs if run.path.endswith(".GRPOTrainer"))
        given = ((run.arguments.get("reward_funcs"), run.construction) for run in runs)
        yield from one_per_location(
            self.finding(
                trainer_methods.head_of(pipeline, function),
                "this reward function gives all completions of a batch the same reward",
                related=[Related(construction, "passed to the trainer here", "trainer")],
                why=WHY_VALUE,
                help="compute a reward for each completion",
            )
            for argument, construction in given
            for function in (_functions(argument.value) if argument else ())
            if not _missing(function) and trainer_methods.repeats_one_value(function)
        )


def _functions(value: Value) -> list[Function]:
    items = value.items if isinstance(value, Sequence) else [value]
    functions = [own for item in items if (own := trainer_methods.own_function(item)) is not None]
    return [each for each in functions if not each.is_wrapped and not each.decorators]


def _never_passed(function: Function) -> str:
    """A parameter without a default that the trainer never passes: its name for several is another; empty if none."""
    given = function.node.args
    required = given.args[: len(given.args) - len(given.defaults)]
    return next((each.arg for each in required if each.arg in NEVER_PASSED), "")


def _absent_column(function: Function, run: TrainerRun) -> str:
    """A parameter without a default that is neither passed by every trainer nor a column of the rows; else empty."""
    rows = run.dataset("train_dataset")
    is_plain = run.instance is None and is_missing(run.value("rollout_func"))  # neither passes more than columns
    if rows is None or not rows.is_complete or not rows.columns or rows.has_transform or not is_plain:
        return ""
    given = function.node.args
    required = given.args[: len(given.args) - len(given.defaults)]
    required += [each for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    known = {*PASSED, *PASSED_BY_NEW_TRAINERS, *rows.columns, "self"}
    return next((each.arg for each in required if each.arg not in known), "")


def _missing(function: Function) -> str:
    """The first argument that a function certainly does not accept; empty if it accepts any name."""
    given = function.node.args
    if given.kwarg is not None:
        return ""
    names = {each.arg for each in (*given.args, *given.kwonlyargs)}
    return next((name for name in PASSED if name not in names), "")
