"""Searches in the text and the names of a script and its modules, for questions that need no interpreter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Node, Source
from lintrain.startup.lazy_dataclass import dataclass

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


@dataclass(frozen=True, slots=True)
class Import:
    """One name of an import statement: `from module import name as alias`, or `import module as alias`."""

    module: str
    name: str | None
    alias: str | None
    is_top_level: bool
    """Whether it is a statement of the module itself, outside of functions, branches and classes."""


def imports_of(source: Source) -> tuple[Import, ...]:
    """What a file imports, one by one; the module of `from . import x` is empty."""
    return source.cached(_imports)


def _imports(source: Source) -> tuple[Import, ...]:
    top = set(source.tree.body)
    whole = [
        Import(each.name, None, each.asname, node in top) for node in source.nodes_of(ast.Import) for each in node.names
    ]
    parts = [
        Import(node.module or "", each.name, each.asname, node in top)
        for node in source.nodes_of(ast.ImportFrom)
        for each in node.names
    ]
    return (*whole, *parts)


def declared_names(source: Source) -> frozenset[str]:
    """The names of a file's functions, classes, parameters and imports."""
    found = {node.name for node in source.nodes_of(ast.FunctionDef)}
    found.update(node.name for node in source.nodes_of(ast.ClassDef))
    found.update(node.arg for node in source.nodes_of(ast.arg))
    found.update(node.asname or node.name for node in source.nodes_of(ast.alias))
    return frozenset(found)


def attribute_names(source: Source) -> frozenset[str]:
    """The attributes that a file reads or sets, of any object."""
    return frozenset(node.attr for node in source.nodes_of(ast.Attribute))


def bindings_of(source: Source, name: str) -> list[Location]:
    """Where a file binds a name: as a variable or as a parameter."""
    names = [node for node in source.nodes_of(ast.Name) if node.id == name and isinstance(node.ctx, ast.Store)]
    return [*map(source.location, names), *(source.location(n) for n in source.nodes_of(ast.arg) if n.arg == name)]


def attribute_uses(source: Source, owner: str, attribute: str) -> list[Location]:
    """Where a file uses `owner.attribute`."""
    return [
        source.location(node)
        for node in source.nodes_of(ast.Attribute)
        if node.attr == attribute and isinstance(node.value, ast.Name) and node.value.id == owner
    ]
