"""Whether a name that a scope binds is used for anything but to be printed or logged."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import children, walk

SHOWS = frozenset({"print", "info", "debug", "warning", "log", "write"})
"""Calls that only show what they get."""


def is_only_shown(scope: ast.AST, name: str) -> bool:
    """Whether a scope, with the functions inside it, reads a name at most to show it."""
    everything = walk(scope)
    reads = [
        each for each in everything if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
    ]
    if not reads:
        return True
    parents = {id(child): node for node in everything for child in children(node)}
    return all(_is_shown(parents, each) for each in reads)


def _is_shown(parents: Mapping[int, ast.AST], read: ast.AST) -> bool:
    """Whether a read is a part of a statement that only prints or logs."""
    above = parents.get(id(read))
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.Call) and last_name(above.func) in SHOWS:
            return True
        above = parents.get(id(above))
    return False
