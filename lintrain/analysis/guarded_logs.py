"""Logarithms of a number that the same function keeps away from zero in another logarithm."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SMALL_NAME = lazy_pattern(r"(?i)(?:^|[._])(?:eps|epsilon|tiny|smooth)$")
SMALL = 1e-3
"""Numbers up to this one only keep a logarithm finite."""

BOUNDS = frozenset({"clamp", "clip", "clamp_", "clamp_min", "clamp_min_", "where", "maximum", "nan_to_num", "max"})
EXPONENTIAL = lazy_pattern(r"exp\(|cosh\(|softplus\(")
"""Functions of which sums are far from zero."""


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A logarithm without the small number that another one has: where, and of what; where the other one is."""

    location: Location
    of: str
    guarded: Location


def unguarded_logs(source: Source) -> Iterator[Unguarded]:
    """The logarithms of `p` next to one of `p + eps` or `1 - p + eps`, and the other way round."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        logs = [(node, node.args[0]) for node in nodes if isinstance(node, ast.Call) and _is_log(node)]
        guarded = {_base(sure): node for node, argument in logs if (sure := _guarded(argument)) is not None}
        for node, argument in logs if guarded else ():
            of = _base(argument)
            if of in guarded and _guarded(argument) is None and not _is_bounded(nodes, of):
                yield Unguarded(source.location(node), unparse(argument), source.location(guarded[of]))


def _is_log(call: ast.Call) -> bool:
    return unparse(call.func) == "torch.log" and len(call.args) == 1


def _guarded(argument: ast.expr) -> ast.expr | None:
    """What a small number is added to, `p` of `p + 1e-8`; None if the argument of a logarithm is no such sum."""
    match argument:
        case ast.BinOp(left=of, op=ast.Add(), right=ast.Constant(value=float(number))):
            return of if 0 < number <= SMALL else None
        case ast.BinOp(left=of, op=ast.Add(), right=ast.Name() | ast.Attribute() as small):
            return of if SMALL_NAME.search(unparse(small)) is not None else None
        case _:
            return None


def _base(argument: ast.expr) -> str:
    """The code of a probability, also of `1 - p`."""
    match argument:
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=inner):
            return unparse(inner)
        case _:
            return unparse(argument)


def _is_bounded(nodes: Sequence[ast.AST], of: str) -> bool:
    """Whether a number is kept away from zero where it comes from, or is no plain name or attribute."""
    if not of.replace(".", "").isidentifier():
        return True
    given = [node.value for node in nodes if isinstance(node, ast.Assign) and unparse(node.targets[0]) == of]
    code = " ".join(unparse(each) for each in given)
    return EXPONENTIAL.search(code) is not None or any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in BOUNDS
        for value in given
        for each in walk(value)
    )
