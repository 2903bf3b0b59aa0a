"""Sums that start at 0, are overwritten in each iteration of a loop, and are divided by a count after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.hits import Overwritten, names_in, plain_statements
from lintrain.source.nodes import own_nodes, walk
from lintrain.source.source import Source


def divided_after_loops(source: Source) -> Iterator[Overwritten]:
    """The numbers of the last iteration of a loop that are divided as if the loop had added all of them up."""
    if not any(isinstance(node.op, ast.Div) for node in source.nodes_of(ast.BinOp, ast.AugAssign)):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        for use, name, statement in source.once(_divided_in, scope):
            yield Overwritten(source.location(use), name, source.location(statement))


def _divided_in(scope: ast.AST) -> list[tuple[ast.AugAssign | ast.BinOp, str, ast.Assign]]:
    """The divisions in a function or file, each with the name that it divides and the statement in the loop."""
    nodes, found = own_nodes(scope), list[tuple[ast.AugAssign | ast.BinOp, str, ast.Assign]]()
    for loop in (node for node in nodes if isinstance(node, ast.For)):
        for statement, name in _set_in(loop):
            use = _division(nodes, loop, name)
            if use is not None and _starts_at_zero(nodes, loop, name):
                found.append((use, name, statement))
    return found


def _set_in(loop: ast.For) -> Iterator[tuple[ast.Assign, str]]:
    """The names that each iteration sets once, to what does not depend on them, and the statement that does."""
    for statement in plain_statements(loop):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not isinstance(value, ast.Constant):
                stores = [node for node in walk(loop) if _stores(node, name)]
                if len(stores) == 1 and name not in names_in(value):
                    yield statement, name
            case _:
                pass


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _starts_at_zero(nodes: Sequence[ast.AST], loop: ast.For, name: str) -> bool:
    """Whether the last statement above a loop that sets a name sets it to 0."""
    before = [
        node
        for node in nodes
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For) and node.lineno < loop.lineno
        if any(_stores(each, name) for each in walk(node)) and (node.end_lineno or 0) < loop.lineno
    ]
    match max(before, key=lambda node: node.lineno, default=None):
        case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=value)):
            return value == 0 and not isinstance(value, bool)
        case ast.Assign(targets=targets, value=ast.Constant(value=value)):
            return value == 0 and all(isinstance(each, ast.Name) for each in targets) and not isinstance(value, bool)
        case _:
            return False


def _division(nodes: Sequence[ast.AST], loop: ast.For, name: str) -> ast.AugAssign | ast.BinOp | None:
    """Where a name is divided by a count after a loop: by a length, or by what the loop adds up."""
    last = loop.end_lineno or 0
    sums = (each.target for each in walk(loop) if isinstance(each, ast.AugAssign))
    added = {target.id for target in sums if isinstance(target, ast.Name)}
    below = [node for node in nodes if isinstance(node, ast.Assign | ast.For) and node.lineno > last]
    replaced = [node.lineno for node in below if _replaces(node, name)]
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            count = node.value
        elif isinstance(node, ast.BinOp) and name in names_in(node.left):
            count = node.right
        else:
            continue
        if not isinstance(node.op, ast.Div):
            continue
        is_next = last < node.lineno <= min(replaced, default=node.lineno)
        if is_next and _counts(count, added):
            return node
    return None


def _replaces(node: ast.Assign | ast.For, name: str) -> bool:
    """Whether a statement gives a name another value than its own one, divided."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    is_own = isinstance(node, ast.Assign) and name in names_in(node.value)
    return not is_own and any(_stores(each, name) for target in targets for each in walk(target))


def _counts(node: ast.expr, added: set[str]) -> bool:
    """Whether an expression is a number of rows or batches."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"max", "float"}:
        return any(_counts(each, added) for each in node.args)
    match node:
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Name(id=name):
            return name in added
        case _:
            return False
