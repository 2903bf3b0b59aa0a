"""Which kind of configuration a file holds, decided by its keys and never by its name."""

from __future__ import annotations

import re

from lintrain.configurations import components, fine_tuning, launching
from lintrain.configurations.document import Node, Section
from lintrain.configurations.kind import Kind
from lintrain.startup.lazy_dataclass import dataclass

KINDS = (*launching.KINDS, *components.KINDS, *fine_tuning.KINDS)
"""In the order in which they are asked: keys that one kind alone has come first."""

FOREIGN = frozenset(
    {
        *("apiVersion", "kind", "jobs", "services", "openapi", "swagger", "pipelines", "stages", "repos"),
        *("architectures", "$schema", "scripts", "dependencies", "devDependencies", "hooks", "entrypoint"),
    }
)
"""Keys of cluster manifests, workflows, compose files, saved models and packages: no training starts from these."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a file that is a configuration: the whole file, or a part of it."""

    kind: Kind
    section: Section
    is_nested: bool = False


def parts_of(document: Node) -> list[Part]:
    """The configurations in a document; empty for any other file."""
    if not isinstance(document, Section) or document.keys & FOREIGN:
        return []
    whole = next((kind for kind in KINDS if kind.shows(document)), None)
    if whole is not None:
        return [Part(whole, document)]
    nested = list(_nested(document, 3))
    return nested or ([Part(components.MERGED, document)] if components.MERGED.shows(document) else [])


def _nested(section: Section, depth: int) -> list[Part]:
    found: list[Part] = []
    for entry in section.entries if depth else ():
        if isinstance(entry.value, Section) and entry.is_own:
            kind = next((kind for kind in KINDS if kind.may_be_nested and kind.shows(entry.value)), None)
            found += [Part(kind, entry.value, is_nested=True)] if kind else _nested(entry.value, depth - 1)
    return found


SIGNS = re.compile(
    rb"^[ \t{]*[\"']?(?:base_model|model_name_or_path|micro_batch_size|sequence_len|output_dir|distributed_type"
    rb"|per_device_train_batch_size|num_train_epochs|learning_rate|lr_scheduler_type|zero_optimization|peft_type"
    rb"|do_sample|train_micro_batch_size_per_gpu|train_batch_size|_component_|_target_|class_path|finetuning_type|stage"
    rb"|gradient_accumulation_steps|save_strategy|eval_strategy|evaluation_strategy|steps_per_print|defaults)[\"']?"
    rb"[ \t]*:",
    re.MULTILINE,
)
"""A file with none of these keys at the start of a line, or right after a brace, is no configuration."""

INLINE = re.compile(rb"[\"'](?:peft_type|zero_optimization|train_batch_size|per_device_train_batch_size)[\"'][ \t]*:")


def may_configure(raw: bytes) -> bool:
    """Whether the bytes of a YAML or JSON file may be a training configuration, without parsing them."""
    return SIGNS.search(raw) is not None or INLINE.search(raw) is not None
