"""Loops that train and return in their first iteration, which is a `return` that is indented too far."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.averages import additions_in
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, statements, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ON_PURPOSE = lazy_pattern(
    r"debug|sanity|overfit|smoke|profil|bench|warm|dry|quick|first|(?<![a-z])(?:one|once|only|single|test|demo|try|1)(?![a-z])"
)
"""Words of comments and names that show that one iteration is enough."""

COUNTS = frozenset({"range", "trange"})
"""Functions whose loops count the epochs or steps of a training."""


@dataclass(frozen=True, slots=True)
class EarlyReturn:
    """A `return` at the end of each iteration: where, the loop, and the sum over all batches that it returns.

    `total` is empty for a loop that counts epochs or steps.
    """

    location: Location
    loop: Location
    total: str = ""


def early_returns(source: Source) -> list[EarlyReturn]:
    """The loops of a file that train, and that a `return` certainly ends in their first iteration."""
    return source.cached(_early_returns)


def _early_returns(source: Source) -> list[EarlyReturn]:
    found: list[EarlyReturn] = []
    loaders = {loop for loop, _ in source.cached(loops_over_loaders)}
    for scope in source.nodes_of(ast.FunctionDef):
        returning = [(loop, last) for loop in source.once(_own_loops, scope) if (last := _last_of(loop)) is not None]
        for loop, last in returning:
            if _goes_on(loop) or not _trains(source, loop) or _is_on_purpose(source, scope, loop, last):
                continue
            goes_through_batches = loop in loaders or _steps(walk(loop))
            total = _total_in(loop, last) if goes_through_batches else ""
            if total or _counts(loop):
                found.append(EarlyReturn(source.location(last), source.location(loop), total))
    return found


def _own_loops(scope: ast.FunctionDef) -> list[ast.For]:
    """The loops of a function that is no generator, without those of functions inside of it."""
    nodes = own_nodes(scope)
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return []
    return [node for node in nodes if isinstance(node, ast.For)]


def _last_of(loop: ast.For) -> ast.Return | None:
    """The `return` that every iteration ends with, also in a `with` block at the end."""
    last = loop.body[-1]
    while isinstance(last, ast.With):
        last = last.body[-1]
    return last if isinstance(last, ast.Return) else None


def _goes_on(loop: ast.For) -> bool:
    """Whether some iterations reach the next one before the `return`."""
    return any(isinstance(node, ast.Continue | ast.Break) for node in walk(loop))


def _trains(source: Source, loop: ast.For) -> bool:
    """Whether a loop trains, itself or by a function of the file."""
    nodes = walk(loop)
    if _steps(nodes):
        return True
    trainers = source.cached(_functions_that_train)
    called = {last_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    return bool(trainers & called)


def _functions_that_train(source: Source) -> frozenset[str]:
    return frozenset(node.name for node in source.nodes_of(ast.FunctionDef) if _steps(walk(node)))


def _steps(nodes: list[ast.AST]) -> bool:
    called = {node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    return {"backward", "step"} <= called


def _counts(loop: ast.For) -> bool:
    """Whether a loop counts more than one epoch or step: `range(epochs)`."""
    counts = [node for node in walk(loop.iter) if isinstance(node, ast.Call) and last_name(node.func) in COUNTS]
    return len(counts) == 1 and not any(unparse(each) == "1" for each in counts[0].args[-1:])


def _total_in(loop: ast.For, last: ast.Return) -> str:
    """The sum or list over all batches that a `return` hands over; empty if it returns what one batch gives."""
    if last.value is None:
        return ""
    inside = [statement for statement in statements(loop.body) if isinstance(statement, ast.Assign)]
    totals: dict[str, ast.AST] = {total: addition for addition, total in additions_in(loop)}
    totals |= {name: node for node in walk(loop) if (name := _collects_into(node))}
    started = {unparse(target) for each in inside if each not in totals.values() for target in each.targets}
    read = {unparse(node) for node in walk(last.value) if isinstance(node, ast.Name | ast.Attribute)}
    return next((total for total in totals if total in read and total not in started), "")


def _collects_into(node: ast.AST) -> str:
    """The list that a call adds to: `losses.append(x)`; empty for other code."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")):
            return name
        case _:
            return ""


def _is_on_purpose(source: Source, scope: ast.FunctionDef, loop: ast.For, last: ast.Return) -> bool:
    """Whether the name of the function, or a comment at the loop or the `return`, is about a single iteration."""
    return bool(ON_PURPOSE.search(scope.name.lower())) or any(
        ON_PURPOSE.search(comment) for comment in _comments(source, loop, last)
    )


def _comments(source: Source, loop: ast.For, last: ast.Return) -> Iterator[str]:
    for line in (loop.lineno - 1, loop.lineno, last.lineno - 1, last.lineno):
        code, _, comment = source.lines[line - 1].partition("#") if 0 < line <= len(source.lines) else ("", "", "")
        if not code.strip() or line in (loop.lineno, last.lineno):
            yield comment.lower()
