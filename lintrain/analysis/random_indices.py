"""Random numbers that index a sequence and can be past its end, or are never that of its last item."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

INCLUDES_END = frozenset({"random.randint", "randint"})
"""The function of Python, whose second argument is the largest result."""

LEAVES_END_OUT = frozenset(
    {"np.random.randint", "numpy.random.randint", "torch.randint", "random.randrange", "randrange"}
    | {"rng.integers", "np.random.choice", "numpy.random.choice"}
)
"""Functions of which the bound is no result."""

OF_PYTHON = ("from random import", "import random")


@dataclass(frozen=True, slots=True)
class RandomIndex:
    """A random index with a wrong bound: where it is made, the sequence, what bound is right, and where it is used."""

    location: Location
    sequence: str
    bound: Location
    right: str
    used: Location
    is_past_end: bool


def wrong_random_indices(source: Source) -> Iterator[RandomIndex]:
    """The random numbers up to the length of a sequence, or up to one less, that index that sequence."""
    if "rand" not in source.text or "len(" not in source.text:
        return
    scopes: list[ast.AST] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        for read in own_nodes(scope):
            if isinstance(read, ast.Subscript) and isinstance(read.ctx, ast.Load):
                made = _call_of(read.slice, scope)
                found = _judged(source, made, unparse(read.value)) if made is not None else None
                if found is not None:
                    location, bound, right, is_past_end = found
                    yield RandomIndex(location, unparse(read.value), bound, right, source.location(read), is_past_end)


def _call_of(index: ast.expr, scope: ast.AST) -> ast.Call | None:
    """The call that an index is the result of, directly or through a name that is set once and only indexes."""
    if isinstance(index, ast.Name):
        stores, loads = _uses(scope, index.id)
        is_index = len(stores) == 1 and all(isinstance(each, ast.Subscript) for each in loads)
        return _converted(stores[0]) if is_index else None
    return _converted(index)


def _uses(scope: ast.AST, name: str) -> tuple[list[ast.expr], list[ast.AST]]:
    """What a scope binds a name to, and what reads it: the subscripts that it is the whole index of."""
    values: list[ast.expr] = []
    reads: list[ast.AST] = []
    indexed = {id(each.slice): each for each in own_nodes(scope) if isinstance(each, ast.Subscript)}
    bound = {id(each.targets[0]): each.value for each in own_nodes(scope) if isinstance(each, ast.Assign)}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and node.id == name:
            if isinstance(node.ctx, ast.Load):
                reads.append(indexed.get(id(node), node))
            else:
                values.append(bound.get(id(node), node))
    return values, reads


def _converted(value: ast.expr) -> ast.Call | None:
    """The call of `int(call)`, `call.item()` or the call itself."""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[ast.Call() as inner]):
            return inner
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="item")):
            return inner
        case ast.Call():
            return value
        case _:
            return None


def _judged(source: Source, call: ast.Call, sequence: str) -> tuple[Location, Location, str, bool] | None:
    """Where a random number is made, its bound, what that should be, and whether it may be past the end."""
    name, bound = unparse(call.func), _bound(call)
    length = f"len({sequence})"
    if bound is None:
        return None
    if name in INCLUDES_END and unparse(bound) == length and any(word in source.text for word in OF_PYTHON):
        if name == "randint" and "from random import" not in source.text:
            return None
        return source.location(call), source.location(bound), f"{length} - 1", True
    if name in LEAVES_END_OUT and unparse(bound) == f"{length} - 1":
        return source.location(call), source.location(bound), length, False
    return None


def _bound(call: ast.Call) -> ast.expr | None:
    """The upper bound of `randint(0, n)` and `randint(n)`."""
    match call.args:
        case [ast.Constant(value=0), bound, *_]:
            return bound
        case [bound] if unparse(call.func) not in INCLUDES_END:
            return bound
        case _:
            return None
