"""Log-probabilities of texts that a preference loss compares pair by pair, summed over the whole batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.preference_sides import is_chosen, is_rejected
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

OF_ROWS = lazy_pattern(r"\[:, *(?:1:|:-1)")
"""Code that leaves out a token of each row of a batch."""

MEAN_OF_PAIRS = lazy_pattern(r"logsigmoid\([^\n]*\)\.mean\(|mean\([^\n]*logsigmoid\(")


def summed_over_batch(source: Source) -> Iterator[Location]:
    """The sums that give one number for a batch, in functions whose results for chosen and rejected are compared."""
    if "gather(" not in source.text or not source.contains(MEAN_OF_PAIRS):
        return
    for function in source.nodes_of(ast.FunctionDef):
        code = unparse(function) if "gather(" in source.code(source.location(function)) else ""
        if not OF_ROWS.search(code) or not _compares(source, function.name):
            continue
        for node in own_nodes(function):
            total = _total(node.value) if isinstance(node, ast.Return) and node.value is not None else None
            if total is not None:
                yield source.location(total)


def _compares(source: Source, name: str) -> bool:
    """Whether a file names what a function returns for the chosen and for the rejected answers."""
    named = [
        node.targets[0]
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == name
    ]
    return any(map(is_chosen, named)) and any(map(is_rejected, named))


def _total(node: ast.expr) -> ast.Call | None:
    """A sum over all axes: `(logps * mask).sum()`, `torch.sum(logps * mask)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[_], keywords=[]):
            return node
        case ast.Call(func=ast.Attribute(attr="sum"), args=[], keywords=[]):
            return node
        case ast.BinOp(left=ast.Call() as left, op=ast.Div()):
            return _total(left)
        case _:
            return None
