"""Configurations of adapters and of quantization that a script builds and gives to no model and no trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.only_shown import is_only_shown
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

ADAPTER = (
    "LoraConfig",
    "AdaLoraConfig",
    "IA3Config",
    "PrefixTuningConfig",
    "PromptTuningConfig",
    "PromptEncoderConfig",
)
QUANTIZATION = ("BitsAndBytesConfig", "GPTQConfig")
BUILDS = rf"\b(?:{'|'.join(ADAPTER + QUANTIZATION)})\("
TRAINS = r"Trainer\(|\.backward\(|\.fit\("
MAY_READ = r"\b(globals|locals|exec|eval)\("


@dataclass(frozen=True, slots=True)
class UnreadConfig:
    """The call that builds a configuration, its name, and what it is for."""

    location: Location
    name: str
    is_adapter: bool


def unread_configs(source: Source) -> Iterator[UnreadConfig]:
    """The configurations under a name that their function or file only shows, in a file that trains."""
    if not source.contains(BUILDS) or not source.contains(TRAINS) or source.contains(MAY_READ):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        for node in own_nodes(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func) as made):
                    kind = last_name(func)
                case _:
                    continue
            if kind in ADAPTER + QUANTIZATION and _is_of(scope, node, name) and is_only_shown(scope, name):
                yield UnreadConfig(source.location(made), name, kind in ADAPTER)


def _is_of(scope: ast.AST, assigned: ast.AST, name: str) -> bool:
    """Whether a name is one of its scope alone: not of a class, and not bound for other files or functions."""
    nodes = own_nodes(scope)
    is_shared = any(isinstance(each, ast.Global | ast.Nonlocal) and name in each.names for each in nodes)
    return assigned in nodes and not is_shared
