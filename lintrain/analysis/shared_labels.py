"""Labels that are the token ids of the inputs and no copy, so that hiding some of them changes the inputs too."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

HIDES = lazy_pattern(r"-100\b|ignore_(index|token|id)", re.IGNORECASE)
"""What a token is replaced by that the loss is to ignore; no token has a negative number."""

IDS = lazy_pattern(r"input_?ids|token_?ids", re.IGNORECASE)
"""Code that reads the token ids of an encoding or a batch."""


@dataclass(frozen=True, slots=True)
class SharedLabels:
    """Where labels are bound to the inputs, their name, the code of the inputs, where they are changed and used."""

    location: Location
    name: str
    inputs: str
    changed: Location
    used: Location


def shared_labels(source: Source) -> Iterator[SharedLabels]:
    """The labels of a file that are bound to inputs, of which some are hidden, before the inputs are used."""
    if not source.contains(HIDES) or not source.contains(IDS):
        return
    for function in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(function)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if "label" in name:
                    found = _changed(source, node, Shared.of(name, value), nodes)
                    if found is not None:
                        yield found
                case _:
                    pass


@dataclass(frozen=True, slots=True)
class Shared:
    """The name of labels, the code of the inputs that they are, and the name of what holds the inputs."""

    name: str
    inputs: str
    owner: str

    @classmethod
    def of(cls, name: str, value: ast.expr) -> Shared | None:
        """The labels that are token ids themselves: a name, an attribute or an entry, and no part or copy of them."""
        match value:
            case ast.Name(id=ids):
                owner = ids
            case (
                ast.Attribute(value=ast.Name(id=owner), attr=ids)
                | ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str() as ids))
            ):
                pass
            case _:
                return None
        return cls(name, unparse(value), owner) if IDS.fullmatch(ids) else None


def _changed(source: Source, bound: ast.Assign, shared: Shared | None, nodes: Sequence[ast.AST]) -> SharedLabels | None:
    """The first change of labels in place, if the inputs are used after it, and nothing is bound again before."""
    if shared is None:
        return None
    writes = (node for node in nodes if isinstance(node, ast.Assign) and _hides(node, shared.name))
    write = next((node for node in writes if node.lineno > bound.lineno), None)
    if write is None:
        return None
    bindings = sorted(
        (node.lineno, node.id)
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno > bound.lineno
    )
    if any(line <= write.lineno and name in (shared.name, shared.owner) for line, name in bindings):
        return None
    last = next((line for line, name in bindings if name == shared.owner and line > write.lineno), math.inf)
    used = next((node for node in _uses(nodes, shared) if write.lineno < node.lineno <= last), None)
    if used is None:
        return None
    return SharedLabels(
        source.location(bound.value), shared.name, shared.inputs, source.location(write), source.location(used)
    )


def _hides(node: ast.Assign, name: str) -> bool:
    """Whether a statement replaces some of the labels by what the loss ignores: `labels[:n] = -100`."""
    match node.targets:
        case [ast.Subscript(value=ast.Name(id=target))] if target == name:
            return HIDES.search(unparse(node.value)) is not None
        case _:
            return False


def _uses(nodes: Sequence[ast.AST], shared: Shared) -> Iterator[ast.expr]:
    """Where the inputs are read, or what holds them as a whole; not where they only say which labels are hidden."""
    narrowed = {id(node.value) for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)}
    hidden = {
        id(part)
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        for part in walk(node.slice)
    }
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or id(node) in hidden:
            continue
        is_read = isinstance(node.ctx, ast.Load)
        is_whole = isinstance(node, ast.Name) and node.id == shared.owner and id(node) not in narrowed
        if is_read and (is_whole or unparse(node) == shared.inputs):
            yield node
