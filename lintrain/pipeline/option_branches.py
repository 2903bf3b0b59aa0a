"""Branches that run only for some values of an option: `if args.method == "other":`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.source import Source


def values_required(source: Source, location: Location, name: str) -> Iterator[frozenset[str]]:
    """The texts that a name may be where a place runs, for each `if` around it that compares the name with texts."""
    for node in source.nodes_of(ast.If):
        if any(source.location(each).holds(location) for each in node.body):
            tests = node.test.values if isinstance(node.test, ast.BoolOp) and _is_and(node.test) else [node.test]
            yield from (found for each in tests if (found := _texts_compared(each, name)))


def _is_and(test: ast.BoolOp) -> bool:
    return isinstance(test.op, ast.And)


def _texts_compared(test: ast.expr, name: str) -> frozenset[str]:
    """The texts in `args.method == "one"` and in `args.method in ("one", "two")`; none for other tests."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[compared]):
            called = left.attr if isinstance(left, ast.Attribute) else left.id if isinstance(left, ast.Name) else ""
            given = compared.elts if isinstance(compared, ast.Tuple | ast.List | ast.Set) else [compared]
            texts = [each.value for each in given if isinstance(each, ast.Constant)]
            is_known = called == name and len(texts) == len(given)
            return frozenset(each for each in texts if isinstance(each, str)) if is_known else frozenset()
        case _:
            return frozenset()
