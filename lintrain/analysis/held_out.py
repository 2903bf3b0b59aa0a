"""Names of rows that a split held out, whatever they are called: `a, b, c, d = train_test_split(x, y)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import walk
from lintrain.source.source import Source

CONVERTS = frozenset({"Tensor", "FloatTensor", "LongTensor", "Variable", "tensor", "array", "float32"})
"""Functions that are called by their bare name and keep all rows."""


def held_out_names(source: Source) -> frozenset[str]:
    """The names that are only ever bound to the second part of a `train_test_split`, or to a conversion of it.

    The conversions are those of one expression: `torch.tensor(b).float()`, `scaler.transform(b)`, `b.values`.
    """
    if "train_test_split(" not in source.text:
        return frozenset()
    found, other = set[str](), set[str]()
    for node in sorted(source.nodes_of(ast.Assign), key=lambda node: node.lineno):
        held = set(_second_parts(node))
        for name in _bound(node):
            (found if name in held or _is_converted(node.value, found) else other).add(name)
    return frozenset(found - other)


def _bound(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        for each in target.elts if isinstance(target, ast.Tuple | ast.List) else (target,):
            if isinstance(each, ast.Name):
                yield each.id


def _second_parts(node: ast.Assign) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=callee, args=arrays)):
            if last_name(callee) == "train_test_split" and len(targets) == 2 * len(arrays):
                yield from (each.id for each in targets[1::2] if isinstance(each, ast.Name))
        case _:
            pass


def _is_converted(value: ast.expr, found: set[str]) -> bool:
    """Whether a value is made of held-out rows alone: no network is called by its name, and no other rows join."""
    callees = [each.func for each in walk(value) if isinstance(each, ast.Call)]
    if any(isinstance(callee, ast.Name) and callee.id not in CONVERTS for callee in callees):
        return False
    names = [each for each in walk(value) if isinstance(each, ast.Name)]
    # `torch` of `torch.tensor(rows)` and `scaler` of `scaler.transform(rows)` are no rows.
    owners = {id(each.value) for each in walk(value) if isinstance(each, ast.Attribute)}
    joined = [each for each in names if each.id not in found and id(each) not in owners and each.id != "device"]
    return not joined and any(each.id in found for each in names)
