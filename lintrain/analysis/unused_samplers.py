"""Samplers that divide the rows among processes, and that no loader gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

SAMPLER = "DistributedSampler"
READS = frozenset({"set_epoch", "num_samples", "total_size", "epoch"})
"""What is read of a sampler without a row of it."""


@dataclass(frozen=True, slots=True)
class UnusedSampler:
    """A sampler that divides rows, its name, and the loader that goes through all of the same rows without it."""

    location: Location
    name: str
    loader: Location


def unused_samplers(source: Source) -> Iterator[UnusedSampler]:
    """The distributed samplers of a file that nothing takes, next to the only loader of the same rows."""
    if not calls_of(source, {SAMPLER}):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call(func=made) as sampler):
                    rows = _rows_of(sampler) if last_name(made) == SAMPLER else ""
                case _:
                    continue
            loader = _plain_loader(nodes, rows) if rows else None
            if loader is not None and not _is_taken(source, target):
                yield UnusedSampler(source.location(sampler), unparse(target), source.location(loader))


def _rows_of(call: ast.Call) -> str:
    """The code of the data set that a sampler or a loader gets."""
    given = [*(each.value for each in call.keywords if each.arg == "dataset"), *call.args]
    return unparse(given[0]) if given else ""


def _plain_loader(nodes: Sequence[ast.AST], rows: str) -> ast.Call | None:
    """The only loader that a scope makes of these rows, if it gets no sampler."""
    made = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "DataLoader"]
    of_rows = [call for call in made if _rows_of(call) == rows]
    if len(of_rows) != 1:
        return None
    is_open = any(isinstance(each, ast.Starred) for each in of_rows[0].args) or len(of_rows[0].args) > 3
    named = {each.arg for each in of_rows[0].keywords}
    return of_rows[0] if not is_open and named.isdisjoint({None, "sampler", "batch_sampler"}) else None


def _is_taken(source: Source, target: ast.Name | ast.Attribute) -> bool:
    """Whether code reads a sampler, other than to set its epoch or to ask whether there is one."""
    code = unparse(target)
    uses = [
        node for node in source.named(last_name(target)) if isinstance(node.ctx, ast.Load) and unparse(node) == code
    ]
    asked = {id(node.left) for node in source.nodes_of(ast.Compare) if isinstance(node.ops[0], ast.Is | ast.IsNot)}
    asked |= {id(node.value) for node in source.nodes_of(ast.Attribute) if node.attr in READS}
    asked |= {id(node.test) for node in source.nodes_of(ast.If, ast.IfExp)}
    return any(id(node) not in asked for node in uses)
