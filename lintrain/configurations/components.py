"""Files that name the classes and functions to call: torchtune, Hydra, and the command line of Lightning."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.configurations.document import Entry, Items, Node, Scalar, Section
from lintrain.configurations.groups import merged_sections
from lintrain.configurations.kind import Kind
from lintrain.configurations.program import Keyword, Program

LIBRARIES = ("torch", "torchtune", "lightning", "pytorch_lightning", "transformers", "trl", "peft", "accelerate")
"""Whose functions a file may name; those of the project itself are not looked up."""

LIGHTNING_TRAINER = frozenset(
    {
        *("max_epochs", "max_steps", "accelerator", "devices", "strategy", "precision", "callbacks", "logger"),
        *("num_nodes", "limit_train_batches", "limit_val_batches", "val_check_interval", "check_val_every_n_epoch"),
        *("log_every_n_steps", "gradient_clip_val", "accumulate_grad_batches", "num_sanity_val_steps", "gpus"),
        *("enable_checkpointing", "default_root_dir", "fast_dev_run", "min_epochs", "benchmark", "deterministic"),
    }
)
HYDRA_OWN = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})


def sections_of(node: Node) -> Iterator[Section]:
    """All sections of a node, outer ones first."""
    match node:
        case Section():
            yield node
            for entry in node.entries:
                if entry.is_own:
                    yield from sections_of(entry.value)
        case Items():
            for each in node.items:
                yield from sections_of(each)
        case Scalar():
            pass


def _is_library(path: str | None) -> bool:
    return (
        path is not None
        and path.partition(".")[0] in LIBRARIES
        and all(part.isidentifier() for part in path.split("."))
    )


def _is_torchtune(section: Section) -> bool:
    named = (each.text("_component_") for each in sections_of(section))
    return any(path is not None for path in named)


def _write_torchtune(program: Program, section: Section) -> None:
    program.do(
        program.call("torchtune.config", section.location, program.keywords(section), is_open=True), section.location
    )
    for each in sections_of(section):
        if _is_library(path := each.text("_component_")):
            _write_call(program, each, str(path), [entry for entry in each.entries if entry.key != "_component_"])


def _is_hydra(section: Section) -> bool:
    return any(_is_library(each.text("_target_")) for each in sections_of(section))


def _is_merged(section: Section) -> bool:
    return "defaults" in section.keys and any(_is_library(path) for _, path in merged_sections(section))


def _write_hydra(program: Program, section: Section) -> None:
    for each in sections_of(section):
        if _is_library(path := each.text("_target_")):
            _write_call(program, each, str(path), [entry for entry in each.entries if entry.key not in HYDRA_OWN])
    for each, path in merged_sections(section):
        if _is_library(path):
            own = [entry for entry in each.entries if entry.key not in (*HYDRA_OWN, "defaults")]
            _write_call(program, each, path, own)


def _is_lightning(section: Section) -> bool:
    trainer = section.get("trainer")
    if not isinstance(trainer, Section) or trainer.get("_target_") is not None:
        return False
    has_classes = any(each.text("class_path") for each in sections_of(section))
    return has_classes and bool(trainer.keys & LIGHTNING_TRAINER)


def _write_lightning(program: Program, section: Section) -> None:
    trainer = section.get("trainer")
    if isinstance(trainer, Section):
        _write_call(program, trainer, "lightning.pytorch.Trainer", list(trainer.entries))
    for each in sections_of(section):
        arguments = each.get("init_args")
        if _is_library(path := each.text("class_path")) and isinstance(arguments, Section):
            _write_call(program, arguments, str(path), list(arguments.entries))


def _write_call(program: Program, section: Section, path: str, entries: list[Entry]) -> None:
    """A call of a component with the other keys of its section; sections inside are calls of their own."""
    given = [Keyword(each.key, _shallow(program, each.value), each.location) for each in entries if each.is_own]
    program.do(program.call(path, section.location, given, is_open=len(given) < len(entries)), section.location)


def _shallow(program: Program, node: Node) -> ast.expr:
    return program.value(node) if isinstance(node, Scalar) else program.unknown(node.location)


KINDS = (
    Kind("torchtune", "a torchtune configuration", "torchtune", "tune run", _is_torchtune, _write_torchtune),
    Kind("lightning", "a configuration of Lightning's command line", "lightning", "", _is_lightning, _write_lightning),
    Kind("hydra", "a Hydra configuration", "hydra-core", "", _is_hydra, _write_hydra),
)

MERGED = Kind("hydra", "a Hydra configuration", "hydra-core", "", _is_merged, _write_hydra)
"""A file whose sections get their classes from other files; one of another kind comes before."""
