"""The number of the best action, where its value is meant: `gamma * net(state).argmax(1)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import environments, loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

NUMBERS = lazy_pattern(r"argmax|argmin|\.indices\b|\bmax\(|\bmin\(")
KEEPS = frozenset(
    {
        *("float", "double", "to", "cuda", "cpu", "detach", "clone", "numpy", "astype", "item"),
        *("squeeze", "unsqueeze", "view", "reshape", "flatten"),
    }
)
MOST_STEPS = 6


@dataclass(frozen=True, slots=True)
class IndexAsValue:
    """A number of an action that is discounted like a value: where it is made, and the product."""

    location: Location
    product: Location


def index_values(source: Source) -> Iterator[IndexAsValue]:
    """The products of a discount factor and the number of an action."""
    if not (source.contains(environments.REWARDED) and source.contains(NUMBERS)):
        return
    for node in source.nodes_of(ast.BinOp):
        factors = list(loss_terms.factors(node)) if isinstance(node.op, ast.Mult) else []
        if any(environments.is_discount(each) for each in factors):
            found = [_number(source, each, MOST_STEPS) for each in factors]
            yield from (
                IndexAsValue(source.location(each), source.location(node)) for each in found if each is not None
            )


def _number(source: Source, node: ast.expr, steps: int) -> ast.expr | None:
    """The code that gives the number of the highest entry, if an expression certainly is one."""
    match node:
        case ast.Call(func=called) if last_name(called) in {"argmax", "argmin"}:
            return node
        case ast.Subscript(value=ast.Call() as pair, slice=ast.Constant(value=1)) if _is_pair(pair):
            return node
        case ast.Attribute(value=ast.Call() as pair, attr="indices") if _is_pair(pair):
            return node
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _number(source, inner, steps)
        case ast.Name() if steps:
            return _of_name(source, node, steps)
        case _:
            return None


def _of_name(source: Source, name: ast.Name, steps: int) -> ast.expr | None:
    made = list(loss_terms.definitions(source, name))
    if len(made) != 1 or made[0][2] is not None:
        return None
    value, position, _ = made[0]
    if position is None:
        return _number(source, value, steps - 1)
    return value if position == 1 and isinstance(value, ast.Call) and _is_pair(value) else None


def _is_pair(call: ast.Call) -> bool:
    """Whether a call gives the highest entries along an axis and their numbers: `x.max(1)`, `torch.max(x, dim=1)`."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "th"), attr="max" | "min"), args=given):
            axes = given[1:]
        case ast.Call(func=ast.Attribute(attr="max" | "min"), args=given):
            axes = given
        case _:
            return False
    return bool(axes) or any(each.arg == "dim" for each in call.keywords)
