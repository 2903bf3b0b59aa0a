"""Random numbers that index a sequence and can be past its end, or are never that of its last item."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

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

SAMPLES = INCLUDES_END | LEAVES_END_OUT
OF_PYTHON = {"random.randint": "import random", "randint": "from random import"}
"""How a script imports these functions; `np.random` has others of the same names."""


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
        nodes = own_nodes(scope)
        made = [node for node in nodes if isinstance(node, ast.Call) and unparse(node.func) in SAMPLES]
        indices = _named_indices(nodes) if made else {}
        for read in nodes if made else ():
            if isinstance(read, ast.Subscript) and isinstance(read.ctx, ast.Load):
                call = indices.get(read.slice.id) if isinstance(read.slice, ast.Name) else _converted(read.slice)
                found = _judged(source, call, read) if call is not None else None
                if found is not None:
                    yield found


def _named_indices(nodes: Sequence[ast.AST]) -> dict[str, ast.Call]:
    """The calls that a scope gives a name, if it is set once and is only read as a whole index."""
    values = {id(each.targets[0]): each.value for each in nodes if isinstance(each, ast.Assign)}
    indexing = {id(each.slice) for each in nodes if isinstance(each, ast.Subscript)}
    found: dict[str, ast.Call] = {}
    lost = set[str]()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            lost |= set() if id(node) in indexing else {node.id}
        elif isinstance(node, ast.Name):
            call = _converted(values[id(node)]) if id(node) in values else None
            if call is None or node.id in found:
                lost.add(node.id)
            else:
                found[node.id] = call
    return {name: call for name, call in found.items() if name not in lost}


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


def _judged(source: Source, call: ast.Call, read: ast.Subscript) -> RandomIndex | None:
    """The random index of a sequence, if its bound is one too high or too low for it."""
    name, bound, sequence = unparse(call.func), _bound(call), unparse(read.value)
    length = f"len({sequence})"
    if bound is None or name not in SAMPLES:
        return None
    if name in INCLUDES_END and unparse(bound) == length and source.contains(OF_PYTHON[name]):
        right, is_past_end = f"{length} - 1", True
    elif name in LEAVES_END_OUT and unparse(bound) == f"{length} - 1":
        right, is_past_end = length, False
    else:
        return None
    location, used = source.location(call), source.location(read)
    return RandomIndex(location, sequence, source.location(bound), right, used, is_past_end)


def _bound(call: ast.Call) -> ast.expr | None:
    """The upper bound of `randint(0, n)` and `randint(n)`."""
    match call.args:
        case [ast.Constant(value=0), bound, *_]:
            return bound
        case [bound] if unparse(call.func) not in INCLUDES_END:
            return bound
        case _:
            return None
