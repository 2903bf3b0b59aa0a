"""DeepSpeed's configuration and the training arguments set the same thing to different values.

The trainer compares the two before it starts, and raises ValueError for a batch size, a learning rate or a precision
that differs. A value of `"auto"` is filled in from the training arguments.

## Bad

    args = TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        deepspeed={"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}},  # <- deepspeed-mismatch
    )

The precision differs:

    args = TrainingArguments(
        "out",
        bf16=True,
        deepspeed={"fp16": {"enabled": True}, "zero_optimization": {"stage": 2}},  # <- deepspeed-mismatch
    )

## Good

    args = TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        deepspeed={"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}},
    )

## When it is fine

The values are equal:

    args = TrainingArguments(
        "out",
        learning_rate=1e-4,
        deepspeed={
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": 2},
        },
    )

## Fix

None: either value may be the intended one.

## References

Transformers documentation, DeepSpeed, "shared configuration"; `HfTrainerDeepSpeedConfig.trainer_config_process`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import deepspeed
from lintrain.knowledge import api
from lintrain.pipeline.values.python import Absent, literal
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import Finding, Level, Pipeline, Related, Rule

SHARED = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
}
"""The keys that the trainer compares with its arguments."""


class DeepspeedMismatch(Rule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "deepspeed"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for settings in deepspeed.settings_of(pipeline):
            for key, name in SHARED.items() if settings.arguments is not None else ():
                given, wanted = settings.at(key), _argument(settings.arguments, name, pipeline)
                are_known = isinstance(given, int | float) and isinstance(wanted, int | float)
                if are_known and given != wanted:
                    yield self._report(settings, key, name, wanted)

    def _report(self, settings: deepspeed.Settings, key: str, name: str, wanted: object) -> Finding:
        arguments = settings.arguments
        location = arguments.locations.get(name) if arguments is not None else None
        where = location or (arguments.origin if arguments is not None else None)
        note = f"`{name}` is {_shown(wanted)} {'here' if location else 'by default'}"
        return self.finding(
            settings.location(key),
            f"`{key}` is {_shown(settings.at(key))}, but `{name}` is {_shown(wanted)}",
            related=[Related(where, note, "argument")] if where else [],
            help=f'write `"{key.rpartition(".")[2]}": "auto"`, which takes the value of the training arguments',
            subject=name,
        )


def _argument(arguments: TrainingArguments | None, name: str, pipeline: Pipeline) -> object:
    """The value of a training argument, its default if it is certainly left out; None if it is not known."""
    if arguments is None:
        return None
    value = arguments.value(name)
    if isinstance(value, Absent):
        return api.default_value(arguments.path, name, pipeline.targets)
    return literal(value)


def _shown(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else str(value)
