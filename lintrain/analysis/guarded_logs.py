"""Logarithms of a number that the same function keeps away from zero in another logarithm."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.by_name import scopes_naming
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
    for scope in scopes_naming(source, "log"):
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
    """Whether code of the function may keep a number away from zero, or the number is no plain name or attribute."""
    if not of.replace(".", "").isidentifier():
        return True
    for node in nodes:
        match node:
            case ast.AugAssign(target=target) if unparse(target) == of:
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name.endswith("_") and unparse(owner) == of:
                return True
            case ast.Compare() if any(unparse(each) == of for each in walk(node) if isinstance(each, _kind_of(of))):
                return True
            case ast.Assign(targets=[target, *_], value=value) if unparse(target) == of and _keeps_away(value):
                return True
            case _:
                pass
    return False


def _kind_of(of: str) -> type[ast.expr]:
    """The kind of the syntax of a plain name, or of an attribute."""
    return ast.Attribute if "." in of else ast.Name


def _keeps_away(value: ast.expr) -> bool:
    """Whether a value is bounded, or a sum of which a part is positive."""
    return EXPONENTIAL.search(unparse(value)) is not None or any(map(_bounds, walk(value)))


def _bounds(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in BOUNDS
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return any(_is_positive(each) for each in (left, right))
        case _:
            return False


def _is_positive(part: ast.expr) -> bool:
    match part:
        case ast.Constant(value=int() | float() as number):
            return number > 0
        case _:
            return SMALL_NAME.search(unparse(part)) is not None
