"""What the text of a script and of its modules says anywhere, where a rule asks for less than the reader knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.pipeline.pipeline import Pipeline
from lintrain.source.nodes import walk

LAUNCHERS = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning_fabric.Fabric"})


def mentions(pipeline: Pipeline, pattern: str) -> bool:
    """Whether the script, or a module that was read for it, has text that a regular expression finds."""
    return any(re.search(pattern, source.text) for source in pipeline.sources.values())


def speaks_of(pipeline: Pipeline, pattern: str) -> bool:
    """Whether a name in the code of the script or its modules matches a regular expression, in any case of letters."""
    wanted = re.compile(pattern, re.IGNORECASE)
    names = (source.once(_names, source.tree) for source in pipeline.sources.values())
    return any(wanted.search(name) for each in names for name in each)


def _names(tree: ast.Module) -> frozenset[str]:
    return frozenset(name for node in walk(tree) for name in _names_in(node))


def _names_in(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return (name,)
        case ast.ImportFrom(module=str(module)):
            return (module,)
        case ast.alias(name=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case _:
            return ()


def every_node(pipeline: Pipeline) -> Iterator[ast.AST]:
    """All nodes of the script and of the modules that were read for it."""
    for source in pipeline.sources.values():
        yield from source.nodes


def runs_by_launcher(pipeline: Pipeline) -> bool:
    """Whether Accelerate or Fabric prepares the script's objects."""
    return any(call.path in LAUNCHERS or call.path.endswith(".Fabric") for call in pipeline.calls)
