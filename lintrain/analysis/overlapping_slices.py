"""Slices of one list for training and for evaluation that have rows in common: `rows[:900]` and `rows[800:]`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lintrain.analysis.rows_in_code import cuts
from lintrain.analysis.split_names import split_of
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WINDOW = r"(?i:window|seq|look|lag|step|hist|past|context|horizon)\w*"
"""Names for the length of the windows in which a series is read."""


@dataclass(frozen=True, slots=True)
class OverlappingSlice:
    """A slice of held-out rows with rows of the training: where and its code, and the slice of the training."""

    location: Location
    rows: str
    training: Location
    trained: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A slice that a name of the training, or of an evaluation, gets."""

    node: ast.Subscript
    bounds: ast.Slice
    is_training: bool


def overlapping_slices(source: Source) -> Iterator[OverlappingSlice]:
    """The slices of held-out rows that begin before those of the training end, or end after these begin."""
    bodies = [source.tree.body, *(each.body for each in source.nodes_of(ast.FunctionDef))]
    for body in bodies:
        yield from _of_body(source, [each for each in body if isinstance(each, ast.Assign)])


def _of_body(source: Source, assigned: Sequence[ast.Assign]) -> Iterator[OverlappingSlice]:
    parts: dict[str, list[_Part]] = {}
    for node in assigned:
        for name, cut in cuts(node):
            split = split_of(name.rpartition(".")[2])
            if split is not None and isinstance(cut.slice, ast.Slice):
                part, others = _Part(cut, cut.slice, split == "train"), parts.setdefault(unparse(cut.value), [])
                yield from (found for each in others if (found := _compared(source, each, part)) is not None)
                others.append(part)
        stored = {each.id for target in node.targets for each in walk(target) if isinstance(each, ast.Name)}
        parts = {code: found for code, found in parts.items() if not stored & set(re.findall(r"\w+", code))}


def _compared(source: Source, one: _Part, other: _Part) -> OverlappingSlice | None:
    if one.is_training is other.is_training:
        return None
    first, last = (one, other) if _is_open(one.bounds.lower) else (other, one)
    end, begin = first.bounds.upper, last.bounds.lower
    # Two slices that both begin with the first row are a look at a few rows, not a division.
    if end is None or begin is None or _is_open(last.bounds.lower) or not _is_open(first.bounds.lower):
        return None
    shared = _distance(source, begin, end)
    # A series that is read in windows begins its test rows a window earlier.
    if shared is None or shared <= 0 or _is_window(source, shared):
        return None
    trained, held_out = (one, other) if one.is_training else (other, one)
    at = source.location(held_out.node)
    return OverlappingSlice(at, unparse(held_out.node), source.location(trained.node), unparse(trained.node))


def _is_open(bound: ast.expr | None) -> bool:
    return bound is None or (isinstance(bound, ast.Constant) and bound.value == 0)


def _is_window(source: Source, shared: float) -> bool:
    return shared == int(shared) and source.contains(rf"(?:{WINDOW}\s*=|[-+])\s*{int(shared)}\b")


def _distance(source: Source, begin: ast.expr, end: ast.expr) -> float | None:
    """How far one bound is before another, in rows or as a share; None if they cannot be compared."""
    (one, scale), (other, scale_of_other) = _number(source, begin), _number(source, end)
    return other - one if one is not None and other is not None and scale == scale_of_other else None


def _number(source: Source, bound: ast.expr) -> tuple[float | None, str]:
    """The number of a bound, and what it counts: rows from the start or the end, or a share of some other code."""
    if isinstance(bound, ast.Name):
        bound = source.cached(_bounds).get(bound.id, bound)
    match bound:
        case ast.Constant(value=int(rows)):
            return rows, "rows"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(rows))):
            return -rows, "from the end"
        case ast.Call(func=ast.Name(id="int"), args=[ast.BinOp(left=left, op=ast.Mult(), right=right)]):
            shares = [each for each in (left, right) if isinstance(each, ast.Constant)]
            others = [each for each in (left, right) if not isinstance(each, ast.Constant)]
            if len(shares) == 1 and isinstance(shares[0].value, float):
                return shares[0].value, unparse(others[0])
        case _:
            pass
    return None, ""


def _bounds(source: Source) -> dict[str, ast.expr]:
    """The numbers and calls that a file gives to a name which it binds nowhere else."""
    bound = Counter(each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Store))
    bound.update(each.arg for each in source.nodes_of(ast.arg))
    found: dict[str, ast.expr] = {}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() | ast.Call() as value):
                if bound[name] == 1:
                    found[name] = value
            case _:
                pass
    return found
