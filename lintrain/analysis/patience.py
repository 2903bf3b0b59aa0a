"""Counters of epochs without a better score that stop a training, and that an improvement does not set back."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import statements, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

COUNTS = lazy_pattern(r"[+-]= *1\b|= *[\w.]+ *[+-] *1\b")

Scope = ast.For | ast.While | ast.ClassDef
Named = ast.Name | ast.Attribute

STOPS = frozenset({"exit", "quit", "_exit", "stop", "set_stop", "stop_training"})


@dataclass(frozen=True, slots=True)
class NeverReset:
    """A counter of epochs without a better score: where it counts, its code, the best score, and where it stops."""

    location: Location
    counter: str
    best: str
    stops: Location


def never_reset(source: Source) -> Iterator[NeverReset]:
    """The counters that go on after an improvement, so that they count all epochs that were not the best."""
    if not source.contains(COUNTS):
        return
    scopes: list[Scope] = [*source.nodes_of(ast.For, ast.While), *source.nodes_of(ast.ClassDef)]
    for scope in scopes:
        for count, best in source.once(_counts_in, scope):
            counter, stop = _counter(count), None
            if not _is_set_back(scope, counter, count):
                stop = next((each.test for each in _tests_of(scope, counter) if _is_end(each)), None)
            if stop is not None:
                yield NeverReset(source.location(count), counter, best, source.location(stop))


def _counts_in(scope: Scope) -> list[tuple[ast.stmt, str]]:
    """The steps of counters in a loop or class where a score is not better than the best one."""
    found: list[tuple[ast.stmt, str]] = []
    for node in _of_class(scope) if isinstance(scope, ast.ClassDef) else _of_loop(scope):
        if not isinstance(node, ast.If) or not node.orelse:
            continue
        compared = {unparse(side) for each in walk(node.test) if isinstance(each, ast.Compare) for side in _sides(each)}
        for better, worse in ((node.body, node.orelse), (node.orelse, node.body)):
            best = [name for each in better for name in _set_by(each) if name in compared]
            counts = [each for each in worse if _counter(each)]
            are_of_scope = [each for each in counts if _is_held(scope, _counter(each))]
            found.extend((each, best[0]) for each in are_of_scope if best and _counter(each) not in best)
    return found


def _of_loop(loop: ast.For | ast.While) -> list[ast.AST]:
    """What is in a loop, without the loops and functions inside."""
    inner = [each for each in walk(loop)[1:] if isinstance(each, ast.For | ast.While | ast.FunctionDef | ast.Lambda)]
    hidden = {id(each) for one in inner for each in walk(one)}
    return [each for each in walk(loop) if id(each) not in hidden]


def _of_class(owner: ast.ClassDef) -> list[ast.AST]:
    """What is in the methods of a class, without those of classes inside."""
    return [node for method in _methods(owner) for node in walk(method)]


def _methods(owner: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [each for each in owner.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def _is_held(scope: Scope, counter: str) -> bool:
    """Whether a counter belongs to what is looked at: an attribute to a class, a name to a loop."""
    return counter.startswith("self.") == isinstance(scope, ast.ClassDef)


def _sides(node: ast.Compare) -> list[ast.expr]:
    """What is compared, also the parts of a sum: `best - min_delta`."""
    sides = [node.left, *node.comparators]
    parts = [part for each in sides if isinstance(each, ast.BinOp) for part in (each.left, each.right)]
    return [*sides, *parts]


def _set_by(node: ast.stmt) -> list[str]:
    """The code of what a statement assigns."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.For(target=target):
            targets = [target]
        case ast.With(items=items):
            targets = [each.optional_vars for each in items if each.optional_vars is not None]
        case _:
            return []
    flat = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [unparse(each) for each in flat]


def _counter(node: ast.stmt) -> str:
    """The code of what a statement counts up or down by one; empty for another statement."""
    match node:
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op, value=ast.Constant(value=1)):
            return unparse(target) if isinstance(op, ast.Add | ast.Sub) else ""
        case ast.Assign(
            targets=[ast.Name() | ast.Attribute() as target],
            value=ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)),
        ):
            return unparse(target) if unparse(left) == unparse(target) else ""
        case _:
            return ""


def _is_set_back(scope: Scope, counter: str, count: ast.stmt) -> bool:
    """Whether other code of a loop or class may give a counter its first value, or another one."""
    if not isinstance(scope, ast.ClassDef):
        return _may_change(list(statements(scope.body)), counter, count)
    others = [each for each in _methods(scope) if each.name != "__init__"]
    return any(_may_change(list(statements(each.body)), counter, count) for each in others)


def _may_change(body: Sequence[ast.stmt], counter: str, count: ast.stmt) -> bool:
    for each in body:
        if each is not count and (counter in _set_by(each) or _counter(each) == counter):
            return True
        if isinstance(each, ast.AugAssign) and each is not count and unparse(each.target) == counter:
            return True
        if isinstance(each, ast.Global | ast.Nonlocal | ast.FunctionDef | ast.AsyncFunctionDef):
            return True
    return any(isinstance(node, ast.NamedExpr) and node.target.id == counter for each in body for node in walk(each))


def _tests_of(scope: Scope, counter: str) -> list[ast.If | ast.While]:
    """The conditions that compare a counter with a limit."""
    tests = [each for each in walk(scope) if isinstance(each, ast.If | ast.While)]
    return [each for each in tests if any(_compares(node, counter) for node in walk(each.test))]


def _compares(node: ast.AST, counter: str) -> bool:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    return isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Eq | ast.Lt | ast.LtE) and counter in map(
        unparse, [node.left, *node.comparators]
    )


def _is_end(test: ast.If | ast.While) -> bool:
    """Whether a training stops under a condition, or goes on only under it."""
    if isinstance(test, ast.While):
        return True
    for each in test.body:
        match each:
            case ast.Break() | ast.Raise():
                return True
            case ast.Return(value=ast.Constant(value=True)):
                return True
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Constant(value=True)):
                if "stop" in unparse(target).lower():
                    return True
            case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if name in STOPS:
                return True
            case _:
                pass
    return False
