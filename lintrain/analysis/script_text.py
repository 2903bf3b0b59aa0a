"""Searches in the text and the names of a script and its modules, for questions that need no interpreter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Node, Source

LAUNCHERS = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning_fabric.Fabric"})


def mentions(pipeline: Pipeline, pattern: str | re.Pattern[str]) -> bool:
    """Whether a regular expression matches in the script, or in a module that was read for it."""
    return any(source.contains(pattern) for source in pipeline.sources.values())


def mentions_name(pipeline: Pipeline, pattern: str) -> bool:
    """Whether a regular expression matches a name in the code of the script or its modules, ignoring case."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return any(wanted.search(name) for source in pipeline.sources.values() for name in source.cached(_names))


def _names(source: Source) -> frozenset[str]:
    found: set[str | None] = {node.id for node in source.nodes_of(ast.Name)}
    found.update(node.attr for node in source.nodes_of(ast.Attribute))
    found.update(node.arg for node in source.nodes_of(ast.arg))
    found.update(node.arg for node in source.nodes_of(ast.keyword))
    found.update(node.module for node in source.nodes_of(ast.ImportFrom))
    found.update(node.name for node in source.nodes_of(ast.alias))
    found.update(node.name for node in source.nodes_of(ast.FunctionDef))
    found.update(node.name for node in source.nodes_of(ast.ClassDef))
    return frozenset(name for name in found if name is not None)


def every_node(pipeline: Pipeline) -> Iterator[ast.AST]:
    """All nodes of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from source.nodes


def nodes_of_kind(pipeline: Pipeline, kind: type[Node]) -> Iterator[Node]:
    """The nodes of one kind of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from source.nodes_of(kind)


def runs_by_launcher(pipeline: Pipeline) -> bool:
    """Whether Accelerate or Fabric prepares the script's objects."""
    return any(call.path in LAUNCHERS or call.path.endswith(".Fabric") for call in pipeline.calls)
