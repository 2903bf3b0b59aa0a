"""Sums over the batches of a loop that are divided by its last index, which is one less than their number."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.averages import additions_in, divisions_in
from lintrain.model.location import Location
from lintrain.source.nodes import BLOCKS, WITH_BLOCKS, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MEASURED = lazy_pattern(r"(?i)loss|acc|err|score|metric|dice|iou|correct")
"""Names of sums that an average is taken of; other numbers may be divided by one less on purpose, as a variance is."""


@dataclass(frozen=True, slots=True)
class IndexAverage:
    """A division by the last index of a loop, where the loop adds to the sum, and the code of all three."""

    location: Location
    summed: Location
    total: str
    index: str
    items: str


def means_by_index(source: Source) -> Iterator[IndexAverage]:
    """The divisions of sums by the index that the loop before them has left behind."""
    for owner in (source.tree, *source.nodes_of(*WITH_BLOCKS)):
        for name in BLOCKS:
            statements: Sequence[ast.stmt] = getattr(owner, name, None) or ()
            for number, loop in enumerate(statements):
                if isinstance(loop, ast.For):
                    yield from _after(source, loop, statements[number + 1 :])


def _after(source: Source, loop: ast.For, rest: Sequence[ast.stmt]) -> Iterator[IndexAverage]:
    index, items = _index_of(loop)
    if not index or loop.orelse or any(isinstance(node, ast.Break | ast.Continue) for node in walk(loop)):
        return  # where a loop ends early, its index may be the number of batches
    if _binds(loop.body, index):
        return
    sums = {total: added for added, total in additions_in(loop) if added in loop.body and MEASURED.search(total)}
    for statement in rest if sums else ():
        if _binds([statement], index):
            return
        for total, added in sums.items():
            for division, divisor in divisions_in(statement).get(total, ()):
                if isinstance(divisor, ast.Name) and divisor.id == index:
                    yield IndexAverage(source.location(division), source.location(added), total, index, items)


def _index_of(loop: ast.For) -> tuple[str, str]:
    """The name that counts the iterations of a loop from 0, and the code of their number; empty if none does."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="tqdm" | "trange"), args=[ast.Call() as iterated, *_]):
            pass
        case iterated:
            pass
    match iterated:
        case ast.Call(func=ast.Name(id=function), args=[given], keywords=[]):
            pass
        case _:
            return "", ""
    match loop.target:
        case ast.Tuple(elts=[ast.Name(id=name), *_]) if function == "enumerate":
            return name, f"len({unparse(given)})"
        case ast.Name(id=name) if function == "range":
            return name, unparse(given)
        case _:
            return "", ""


def _binds(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether some statements give a name another value."""
    nodes = (node for statement in statements for node in walk(statement))
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in nodes)
