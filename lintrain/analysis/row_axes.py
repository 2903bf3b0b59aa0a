"""Whether the code of a training loop may remove the axis of length 1 that rows of token ids have in a batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.training_loops import words_of
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.source.source import Source

REMOVES = frozenset({"squeeze", "squeeze_", "view", "reshape", "flatten", "cat", "concat", "select", "rearrange"})
"""Functions and methods that may remove an axis."""

SAME = frozenset({"to", "cuda", "cpu", "long", "int", "clone", "detach", "items", "values", "contiguous"})
"""Methods whose result has the axes of its tensor, or holds the tensors of its dictionary."""

ROWS = frozenset(
    {"batch", "data", "encoding", "features", "ids", "inputs", "item", "mask", "row", "rows", "tokens", "x"}
)
"""Words in the names of parameters that get a batch or a part of it."""

OF_ROWS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


def may_be_removed(pipeline: Pipeline) -> bool:
    """Whether code may give token ids of a batch other axes; what it does to labels and outputs does not count."""
    return any(source.cached(_removes) for source in pipeline.sources.values())


def _removes(source: Source) -> bool:
    calls = [node for node in source.nodes_of(ast.Call) if _name(node.func) in REMOVES]
    if not calls:
        return False
    names = _names_of_rows(source)
    return any(_is_of_rows(each, names) for call in calls for each in _changed(call))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _changed(call: ast.Call) -> Iterator[ast.expr]:
    """What a call may give other axes: what a method is called on, and its arguments, also in a list."""
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    for given in call.args:
        yield from given.elts if isinstance(given, ast.List | ast.Tuple) else (given,)
        if isinstance(given, ast.ListComp):
            yield given.elt


def _names_of_rows(source: Source) -> frozenset[str]:
    """The names in a file that may hold a batch, or its token ids: of loops, parameters and what is taken from them."""
    names = {*OF_ROWS}
    for loop in source.nodes_of(ast.For, ast.comprehension):
        names.update(_bound(loop.target))
    names.update(each.arg for each in source.nodes_of(ast.arg) if words_of(each.arg) & ROWS)
    for _ in range(STEPS):
        for node in source.nodes_of(ast.Assign):
            if _is_of_rows(node.value, names):
                names.update(name for target in node.targets for name in _bound(target))
    return frozenset(names)


STEPS = 3
"""How many assignments the ids of a batch are followed through."""


def _bound(target: ast.expr) -> Iterator[str]:
    for node in walk(target):
        if isinstance(node, ast.Name):
            yield node.id


def _is_of_rows(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether code is a batch or its token ids; an entry with another name, such as the labels, is neither."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in SAME:
                node = value
            case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)):
                return key in OF_ROWS
            case ast.Subscript(value=value):
                node = value
            case ast.Attribute(attr=attr):
                return attr in OF_ROWS
            case ast.Name(id=name):
                return name in names
            case ast.DictComp(value=value) | ast.ListComp(elt=value) | ast.GeneratorExp(elt=value):
                node = value
            case _:
                return False
