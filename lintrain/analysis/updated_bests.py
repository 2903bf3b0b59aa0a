"""Comparisons with a best value that was updated just before, which are never true.

best = max(best, accuracy)
is_best = accuracy > best
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source

PLAIN = (ast.Name, ast.Attribute, ast.Subscript)
BLOCKS = ("body", "orelse", "finalbody")

Update = tuple[str, str, type[ast.cmpop]]
"""The best value, the value that it was updated with, and the comparison of the second with the first that is false."""


def late_comparisons(source: Source) -> Iterator[ast.Compare]:
    """The comparisons of a value with a best value that is at least as good already."""
    if not source.contains(r"(?i)best|lowest|highest|\bmax\(|\bmin\("):
        return
    compares = [each for each in source.nodes_of(ast.Compare) if _pair_of(each) is not None]
    pairs = {pair[:2] for each in compares if (pair := _pair_of(each)) is not None}
    updates = [each for each in source.nodes_of(ast.Assign) if any(one[:2] in pairs for one in _updates(each))]
    if updates:
        wanted = {id(each) for each in updates}
        for node in walk(source.tree):
            for block in (getattr(node, name, ()) for name in BLOCKS):
                yield from _late_in(block, wanted) if isinstance(block, list) else ()


def _late_in(block: Sequence[ast.stmt], wanted: set[int]) -> Iterator[ast.Compare]:
    """The comparisons in a block of statements, after an update in the same block."""
    for index, statement in enumerate(block):
        for best, value, operator in _made_by(statement, wanted):
            for later in block[index + 1 :]:
                nodes = walk(later)
                is_changed = _changes(nodes, best, value)
                # The test of an `if` is computed before what its body changes.
                read = walk(later.test) if isinstance(later, ast.If) else [] if is_changed else nodes
                for node in read if not isinstance(later, DEFINITIONS) else ():
                    if isinstance(node, ast.Compare) and (best, value, operator) == _pair_of(node):
                        yield node
                if is_changed:
                    break


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _made_by(statement: ast.stmt, wanted: set[int]) -> Iterator[Update]:
    """The updates that hold after a statement: of its own, or `if value > best: best = value`."""
    match statement:
        case ast.Assign() if id(statement) in wanted:
            yield from _updates(statement)
        case ast.If(test=ast.Compare() as test, body=body, orelse=[]):
            for inner in body:
                for update in _updates(inner) if isinstance(inner, ast.Assign) and id(inner) in wanted else ():
                    if update == _pair_of(test):
                        yield update
        case _:
            pass


def _updates(node: ast.Assign) -> Iterator[Update]:
    match node:
        case ast.Assign(
            targets=[target], value=ast.Call(func=ast.Name(id="max" | "min" as name), args=[one, other], keywords=[])
        ) if isinstance(target, PLAIN):
            best, given = unparse(target), [unparse(one), unparse(other)]
            if best in given and given[0] != given[1]:
                given.remove(best)
                yield best, given[0], ast.Gt if name == "max" else ast.Lt
        case ast.Assign(targets=[target], value=value) if isinstance(target, PLAIN) and isinstance(value, PLAIN):
            yield unparse(target), unparse(value), ast.Gt
            yield unparse(target), unparse(value), ast.Lt
        case _:
            pass


def _pair_of(node: ast.Compare) -> Update | None:
    """The best value, the other one, and how the second is compared with the first; None for other comparisons."""
    match node:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.Lt() as operator], comparators=[right]):
            if isinstance(left, PLAIN) and isinstance(right, PLAIN):
                is_turned = BEST in unparse(left).lower() and BEST not in unparse(right).lower()
                kind = type(operator)
                if is_turned:
                    return unparse(left), unparse(right), ast.Lt if kind is ast.Gt else ast.Gt
                return unparse(right), unparse(left), kind
        case _:
            pass
    return None


BEST = "best"


def _changes(nodes: Sequence[ast.AST], *names: str) -> bool:
    """Whether code may give one of these another value: a store to it, or a call of the object that it belongs to."""
    stored = {unparse(each) for each in nodes if isinstance(each, PLAIN) and not isinstance(each.ctx, ast.Load)}
    called = {_root(each.func) for each in nodes if isinstance(each, ast.Call)}
    return any(name == each or name.startswith((f"{each}.", f"{each}[")) for name in names for each in stored | called)


def _root(node: ast.expr) -> str:
    """The name that an attribute begins with: `self` of `self.writer.add_scalar`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
