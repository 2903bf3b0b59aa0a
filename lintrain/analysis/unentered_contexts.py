"""Contexts of torch that a file makes, and that nothing can enter."""

from __future__ import annotations

import ast

from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source

WITHOUT_EFFECT = frozenset({"no_grad", "enable_grad", "inference_mode", "detect_anomaly", "autocast"})
"""Contexts of torch that have no effect before they are entered."""


def contexts_never_entered(source: Source) -> list[tuple[str, Location]]:
    """The contexts of torch that are made as a statement of their own, so that nothing can enter them."""
    imports = [node for node in source.nodes_of(ast.ImportFrom) if (node.module or "").partition(".")[0] == "torch"]
    plain = {each.asname or each.name for node in imports for each in node.names if each.name in WITHOUT_EFFECT}
    found: list[tuple[str, Location]] = []
    for statement in source.nodes_of(ast.Expr):
        match statement.value:
            case ast.Call(func=ast.Attribute(attr=name) as func) if name in WITHOUT_EFFECT and unparse(func).startswith(
                "torch."
            ):
                found.append((unparse(func), source.location(statement.value)))
            case ast.Call(func=ast.Name(id=name)) if name in plain:
                found.append((name, source.location(statement.value)))
            case _:
                pass
    return found
