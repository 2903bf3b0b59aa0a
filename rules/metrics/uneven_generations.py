"""The batch of a GRPO run cannot be divided into groups of `num_generations`.

GRPO and RLOO compare several completions of the same prompt, so a batch must contain whole groups. The configuration
raises a ValueError when it is created, after imports and, in many scripts, after the data were loaded.

## Bad

    grpo = trl.GRPOConfig(
        "out",
        use_cpu=True,
        per_device_train_batch_size=4,
        num_generations=6,  # <- uneven-generations
    )
    # raises ValueError

## Good

    grpo = trl.GRPOConfig("out", use_cpu=True, per_device_train_batch_size=6, num_generations=6)

## When it is fine

Accumulated batches count together, and those of all processes (here of 8; with vLLM also of 7):

    grpo = trl.GRPOConfig("out", use_cpu=True, gradient_accumulation_steps=2, num_generations=16)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 8:
        grpo = trl.GRPOConfig("out", use_cpu=True, per_device_train_batch_size=1, num_generations=8)

## Fix

None: either number may be the one to change.

## References

TRL documentation, `GRPOConfig.num_generations`; `GRPOConfig.__post_init__` of 1.16.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import library_arguments, script_text
from lintrain.pipeline.values.python import Value, is_missing, literal
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import ArgumentsRule, Finding, Level, Pipeline

PROCESSES = (1, 2, 4, 8, 16, 32, 64)
"""The numbers of processes that a launcher usually starts; the text does not show which."""

BESIDE_VLLM = (*range(1, 9), 12, 14, 15, 16, 24, 28, 30, 31, 32, 64)
"""The same where some GPUs are left to vLLM."""

GROUPING = ("GRPOConfig", "RLOOConfig")

OTHERS = ("generation_batch_size", "steps_per_generation", "auto_find_batch_size")


class UnevenGenerations(ArgumentsRule):
    level = Level.ERROR
    keywords = "GRPOConfig|RLOOConfig"
    judges_configurations = True
    needs_training = False

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding]:
        if not arguments.path.endswith(GROUPING) or not arguments.is_complete:
            return
        if script_text.mentions(pipeline, r"\bunsloth\b"):  # it raises the batch size to the number of generations
            return
        if not all(is_missing(arguments.value(name)) for name in OTHERS):
            return
        asked = arguments.locations.get("num_generations")
        group = _number(arguments.value("num_generations"), 8)
        size = _number(arguments.value("per_device_train_batch_size"), 8)
        steps = _number(arguments.value("gradient_accumulation_steps"), 1)
        if asked is None or group is None or size is None or steps is None or group < 2:
            return
        has_vllm = not is_missing(arguments.value("use_vllm")) and literal(arguments.value("use_vllm")) is not False
        processes = BESIDE_VLLM if has_vllm else PROCESSES
        if all(size * steps * number % group for number in processes) and not library_arguments.is_guessed(
            arguments.path, arguments.values, pipeline
        ):
            yield self.finding(
                asked,
                f"batches of {size * steps} rows cannot hold whole groups of {group} generations",
                help=f"make the batch size times the accumulation steps a multiple of {group}",
            )


def _number(value: Value, default: int) -> int | None:
    """A positive number that is certain, or the default if the argument is missing."""
    if is_missing(value):
        return default
    number = literal(value)
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None
