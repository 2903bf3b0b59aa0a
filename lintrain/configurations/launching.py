"""Files about how a run is launched and spread: accelerate with FSDP, and DeepSpeed."""

from __future__ import annotations

import ast

from lintrain.configurations.document import Node, Scalar, Section
from lintrain.configurations.kind import Kind
from lintrain.configurations.program import Keyword, Program

ACCELERATE = frozenset(
    {
        *("compute_environment", "num_processes", "num_machines", "machine_rank", "mixed_precision", "fsdp_config"),
        *("deepspeed_config", "main_training_function", "use_cpu", "rdzv_backend", "downcast_bf16", "gpu_ids"),
    }
)
DEEPSPEED = frozenset(
    {
        *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"),
        *("fp16", "bf16", "optimizer", "scheduler", "zero_allow_untested_optimizer", "steps_per_print"),
        *("wall_clock_breakdown", "activation_checkpointing", "bfloat16", "amp", "flops_profiler"),
    }
)
DEEPSPEED_ONLY = frozenset({"train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer", "steps_per_print"})
SECTIONS = {
    "zero_optimization": ("offload_param", "offload_optimizer"),
    "fp16": (),
    "bf16": (),
    "comms_logger": (),
    "tensorboard": (),
    "wandb": (),
    "csv_monitor": (),
}


def _is_accelerate(section: Section) -> bool:
    # For SageMaker, accelerate reads another class of settings, with other keys and choices.
    is_here = section.text("compute_environment") != "AMAZON_SAGEMAKER"
    return is_here and "distributed_type" in section.keys and bool(section.keys & ACCELERATE)


def _write_accelerate(program: Program, section: Section) -> None:
    given = [Keyword(each.key, _value(program, each.value), each.location) for each in section.entries]
    program.do(program.call("accelerate.config", section.location, given), section.location)
    for name in ("fsdp_config", "deepspeed_config"):
        if isinstance(inner := section.get(name), Section):
            call = program.call(f"accelerate.config.{name}", inner.location, program.keywords(inner))
            program.do(call, inner.location)


def _is_deepspeed(section: Section) -> bool:
    keys = section.keys
    if isinstance(section.get("zero_optimization"), Section):
        return True
    return len(keys & DEEPSPEED) > 1 and bool(keys & DEEPSPEED_ONLY)


def _write_deepspeed(program: Program, section: Section) -> None:
    _write_section(program, section, "deepspeed.config")
    for name, inner in SECTIONS.items():
        if not isinstance(part := section.get(name), Section):
            continue
        _write_section(program, part, f"deepspeed.config.{name}")
        for key in inner:
            if isinstance(nested := part.get(key), Section):
                _write_section(program, nested, f"deepspeed.config.{name}.{key}")


def _write_section(program: Program, section: Section, path: str) -> None:
    program.do(program.call(path, section.location, program.keywords(section)), section.location)


def _value(program: Program, node: Node) -> ast.expr:
    return program.value(node) if isinstance(node, Scalar) else program.unknown(node.location)


KINDS = (
    Kind(
        "accelerate",
        "a configuration of accelerate",
        "accelerate",
        "accelerate launch --config_file",
        _is_accelerate,
        _write_accelerate,
    ),
    Kind(
        "deepspeed", "a DeepSpeed configuration", "deepspeed", "", _is_deepspeed, _write_deepspeed, may_be_nested=True
    ),
)
