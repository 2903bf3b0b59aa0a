"""Two settings of a run exclude each other, or one of them makes the other have no effect.

The tool raises an error when it starts, or one of the two values is ignored without a word. In a configuration file,
the two lines may be far apart, and one often comes from an example.

## Bad

Parameters are offloaded by stage 3 of DeepSpeed only:

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}},  # <- contradictory-settings
    )

Greedy decoding has no temperature:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(
        do_sample=False,
        temperature=0.7,  # <- contradictory-settings
    )

## Good

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
    )

Sampling:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(
        do_sample=True,
        temperature=0.7,
    )

## When it is fine

The optimizer may be offloaded in stage 2:

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
    )

Values that change nothing may be written down, such as the defaults of a command line:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(do_sample=False, temperature=1.0, top_p=1.0, typical_p=1.0)

## Fix

None: either of the two settings may be the intended one.

## References

`axolotl.utils.schemas.validation`; `llamafactory.hparams.parser`; torchtune recipes; DeepSpeed documentation, "ZeRO
Optimizations"; Transformers documentation, `GenerationConfig`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lintrain.analysis import deepspeed, library_arguments
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import Constant, Unknown, literal
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule

ON, OFF, GIVEN, MISSING, POSITIVE, SEVERAL, NOT_ONE = "on", "off", "given", "missing", "positive", "several", "not one"
"""What a setting may be asked to be; any other text is compared with its value."""

AXOLOTL, FACTORY, TUNE = "axolotl.config", "llamafactory.config", "torchtune.config"
GENERATION = "transformers.GenerationConfig"
SAMPLING = ("temperature", "top_p", "typical_p", "min_p")


class Contradiction(NamedTuple):
    """What settings of a callable exclude each other: the finding is at the first that is given."""

    path: str
    settings: Mapping[str, str]
    message: str
    advice: str
    level: Level = Level.ERROR


def _pairs(path: str, *pairs: tuple[str, str]) -> tuple[Contradiction, ...]:
    """Settings of which only one may be given."""
    return tuple(
        Contradiction(
            path, {one: GIVEN, other: GIVEN}, f"`{one}` and `{other}` are both set, but only one is allowed", "keep one"
        )
        for one, other in pairs
    )


CONTRADICTIONS = (
    *_pairs(
        AXOLOTL,
        ("saves_per_epoch", "save_steps"),
        ("evals_per_epoch", "eval_steps"),
        ("warmup_ratio", "warmup_steps"),
        ("batch_size", "gradient_accumulation_steps"),
    ),
    *_pairs(FACTORY, ("val_size", "eval_dataset")),
    Contradiction(
        AXOLOTL,
        {"load_in_8bit": ON, "load_in_4bit": ON},
        "`load_in_8bit` and `load_in_4bit` are both set, but only one is allowed",
        "keep one",
    ),
    Contradiction(
        AXOLOTL,
        {"adapter": "qlora", "load_in_4bit": OFF},
        "`adapter: qlora` needs `load_in_4bit: true`",
        "set `load_in_4bit: true`, or choose `adapter: lora`",
    ),
    Contradiction(
        AXOLOTL,
        {"eval_steps": GIVEN, "val_set_size": "0", "test_datasets": MISSING},
        "`eval_steps` is set, but `val_set_size: 0` leaves no rows to evaluate on",
        "set a share such as `val_set_size: 0.05`, or remove the key",
    ),
    *(
        Contradiction(
            AXOLOTL,
            {"val_set_size": POSITIVE, name: GIVEN},
            f"`val_set_size` takes rows from the training data, but `{name}` is set",
            "set `val_set_size: 0`",
        )
        for name in ("test_datasets", "pretraining_dataset")
    ),
    Contradiction(
        AXOLOTL,
        {"eval_table_size": POSITIVE, "sample_packing": ON, "eval_sample_packing": MISSING},
        "`eval_table_size` is set, but evaluation rows are packed",
        "set `eval_sample_packing: false`",
    ),
    Contradiction(
        AXOLOTL,
        {"pretraining_dataset": GIVEN, "max_steps": MISSING},
        "`pretraining_dataset` is streamed, and `max_steps` is missing: the run has no end",
        "set `max_steps`",
    ),
    Contradiction(
        FACTORY,
        {"quantization_bit": GIVEN, "finetuning_type": "full"},
        "`quantization_bit` is set, but quantized weights cannot be trained with `finetuning_type: full`",
        "choose `finetuning_type: lora`, or remove `quantization_bit`",
    ),
    Contradiction(
        FACTORY,
        {"quantization_bit": GIVEN, "finetuning_type": "freeze"},
        "`quantization_bit` is set, but quantized weights cannot be trained with `finetuning_type: freeze`",
        "choose `finetuning_type: lora`, or remove `quantization_bit`",
    ),
    Contradiction(
        FACTORY,
        {"streaming": ON, "max_steps": MISSING, "do_train": ON},
        "`streaming` is set, and `max_steps` is missing: the length of the run is not known",
        "set `max_steps`",
    ),
    Contradiction(
        FACTORY,
        {"max_samples": GIVEN, "streaming": ON},
        "`max_samples` is set, but it cannot be combined with `streaming`",
        "remove one of them",
    ),
    Contradiction(
        FACTORY,
        {"predict_with_generate": ON, "do_train": ON, "stage": "sft"},
        "`predict_with_generate` is set, but it is not allowed while training",
        "remove it, or evaluate in a run of its own",
    ),
    Contradiction(
        TUNE,
        {"optimizer_in_bwd": ON, "gradient_accumulation_steps": SEVERAL},
        "`optimizer_in_bwd` steps in each backward pass, so gradients cannot be accumulated",
        "set `gradient_accumulation_steps: 1`, or `optimizer_in_bwd: False`",
    ),
    Contradiction(
        TUNE,
        {"enable_activation_offloading": ON, "enable_activation_checkpointing": OFF},
        "`enable_activation_offloading` needs `enable_activation_checkpointing`",
        "set `enable_activation_checkpointing: True`",
    ),
    *(
        Contradiction(
            GENERATION,
            {name: NOT_ONE, "do_sample": "False"},
            f"`{name}` has no effect: `do_sample` is off",
            f"set `do_sample` to true, or remove `{name}`",
            Level.WARNING,
        )
        for name in SAMPLING
    ),
)


class ContradictorySettings(Rule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "deepspeed|GenerationConfig"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for call in pipeline.calls:
            for each in CONTRADICTIONS if not call.is_guarded else ():
                if each.path == call.path and all(_is(call, *wanted) for wanted in each.settings.items()):
                    given = [call.arguments[name] for name in each.settings if name in call.arguments]
                    yield self._report(each, [argument.keyword or argument.location for argument in given])
        for settings in deepspeed.settings_of(pipeline):
            yield from self._of_deepspeed(settings)
        yield from self._written_twice(pipeline)

    def _report(self, each: Contradiction, locations: list[Location]) -> Finding:
        first, *others = locations
        return self.finding(
            first,
            each.message,
            related=[Related(location, "set here", "setting") for location in others],
            help=each.advice,
            level=each.level,
        )

    def _of_deepspeed(self, settings: deepspeed.Settings) -> Iterator[Finding]:
        stage = settings.at("zero_optimization.stage")
        if settings.at("fp16.enabled") is True and settings.at("bf16.enabled") is True:
            yield self.finding(
                settings.location("bf16"),
                "`fp16` and `bf16` are both enabled, but only one is allowed",
                related=[Related(settings.location("fp16"), "set here", "setting")],
                help="enable one of them",
            )
        for name, least in (("offload_param", 3), ("offload_optimizer", 1)):
            if isinstance(stage, int) and stage < least and _offloads(settings, name):
                yield self.finding(
                    settings.location("zero_optimization"),
                    f"`{name}` has no effect in stage {stage} of ZeRO",
                    help=f"set `stage` to {least}{' or more' if least < 3 else ''}, or remove `{name}`",
                    level=Level.WARNING,
                )
        yield from self._uneven_batch(settings)

    def _uneven_batch(self, settings: deepspeed.Settings) -> Iterator[Finding]:
        whole, part = settings.at("train_batch_size"), settings.at("train_micro_batch_size_per_gpu")
        steps = settings.at("gradient_accumulation_steps") or 1
        if not (isinstance(whole, int) and isinstance(part, int) and isinstance(steps, int)):
            return
        if part * steps > 0 and whole % (part * steps):
            yield self.finding(
                settings.location("train_batch_size"),
                f"`train_batch_size` is {whole}, no multiple of {part} rows times {steps} accumulated steps",
                help="set it to the product of rows, accumulated steps and GPUs, or remove it",
            )

    def _written_twice(self, pipeline: Pipeline) -> Iterator[Finding]:
        for key, first, last in library_arguments.written_twice(pipeline):
            yield self.finding(
                first,
                f"`{key}` is set twice, and only the last value counts",
                related=[Related(last, "the value that counts", "setting")],
                help="remove one of them",
                level=Level.WARNING,
            )


def _is(call: LibraryCall, name: str, wanted: str) -> bool:
    argument = call.arguments.get(name)
    is_missing = argument is None or (isinstance(argument.value, Constant) and argument.value.value is None)
    value = literal(argument.value) if argument is not None else None
    if wanted in (GIVEN, MISSING):
        return is_missing == (wanted == MISSING) and not (argument and isinstance(argument.value, Unknown))
    if wanted in (ON, OFF):
        return value is True if wanted == ON else value is False or is_missing
    if wanted == NOT_ONE:  # 1 is the default of the settings of sampling, and changes nothing
        return isinstance(value, int | float) and value != 1
    if wanted in (POSITIVE, SEVERAL):
        return isinstance(value, int | float) and value > (wanted == SEVERAL)
    return not is_missing and str(value) in (wanted, f"{wanted}.0")


def _offloads(settings: deepspeed.Settings, name: str) -> bool:
    device = settings.at(f"zero_optimization.{name}.device")
    return device in ("cpu", "nvme")
