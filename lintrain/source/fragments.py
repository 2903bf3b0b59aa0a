"""What a partial text takes for granted: the names that it uses and binds nowhere, and what they usually stand for."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from lintrain.source.source import Source
from lintrain.source.usual_names import TORCH, meaning_of

BINDING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def meanings(source: Source) -> Mapping[str, str]:
    """The library paths of the free names of a partial text that usually stand for one; empty for a whole script."""
    return source.cached(_meanings) if source.is_partial else {}


def packages_meant(source: Source) -> frozenset[str]:
    """The top-level packages that a partial text uses without importing them."""
    if not source.is_partial:
        return frozenset()
    found = {path.partition(".")[0] for path in meanings(source).values()}
    return frozenset(found | ({"torch"} if TORCH.search(source.text) else set()))


def _meanings(source: Source) -> Mapping[str, str]:
    found = {name: meaning_of(name, source.text) for name in sorted(_free_names(source))}
    return {name: path for name, path in found.items() if path is not None}


def _free_names(source: Source) -> set[str]:
    names = source.nodes_of(ast.Name)
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound.update(node.arg for node in source.nodes_of(ast.arg))
    bound.update(node.name for node in source.nodes if isinstance(node, BINDING))
    bound.update((node.asname or node.name).partition(".")[0] for node in source.nodes_of(ast.alias))
    return {node.id for node in names} - bound
