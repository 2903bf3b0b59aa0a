"""Training steps of the script's own Trainers that call `backward` on the loss themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from lintrain.startup.lazy_pattern import lazy_pattern

WITH_TRAINERS = frozenset({"transformers", "trl"})
SCALES = lazy_pattern(r"scale_loss|[sS]caler|deepspeed\.|accelerator\.backward")
"""Code that scales losses itself, as Trainers did before accelerate."""


def plain_backwards(source: Source) -> Iterator[ast.Call]:
    """The calls of `loss.backward()` in `training_step` of a class that derives from a Trainer."""
    if WITH_TRAINERS.isdisjoint(imported_packages(source)):
        return
    for owner in source.nodes_of(ast.ClassDef):
        if not any(last_name(base).endswith("Trainer") for base in owner.bases):
            continue
        for step in owner.body:
            if isinstance(step, ast.FunctionDef) and step.name == "training_step" and not SCALES.search(unparse(step)):
                yield from (node for node in own_nodes(step) if _is_plain_backward(node))  # type: ignore[misc]


def _is_plain_backward(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.BinOp(), attr="backward"), args=[]):
            return True
        case _:
            return False
