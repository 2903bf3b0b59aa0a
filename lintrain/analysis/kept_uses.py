"""Where what was kept of a model is used later: the loop that trains in between, and the uses that copy nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source

BEST = re.compile(r"best", re.IGNORECASE)

TRAINS = re.compile(r"backward\(|\.step\(|(?<![a-z])train\w*\(|\bfit\w*\(", re.IGNORECASE)

Loop = ast.For | ast.While


def reads(node: ast.AST, name: str) -> bool:
    """Whether a node is a use of a name."""
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def loop_around(scope: ast.AST, node: ast.stmt, trains: re.Pattern[str]) -> Loop | None:
    """The innermost loop of a scope around a statement, if it trains."""
    loop = innermost_loop(scope, node)
    return loop if loop is not None and trains.search(unparse(loop)) else None


def innermost_loop(scope: ast.AST, node: ast.AST) -> Loop | None:
    """The innermost loop of a scope around a node."""
    loops = [each for each in walk(scope) if isinstance(each, Loop) and node in walk(each)]
    return min(loops, key=lambda each: (each.end_lineno or 0) - each.lineno, default=None)


MODELS = frozenset({"model", "net", "network"})
"""Names of networks."""


def used_as_best(source: Source, scope: ast.AST, node: ast.Assign, name: str, model: str) -> ast.expr | None:
    """Where `best_model` of `best_model = model` is read after the loop around it, in which the model trains."""
    loop = loop_around(scope, node, TRAINS) if model.isidentifier() and not BEST.search(model) else None
    is_model = source.contains(rf"(?<![\w.]){re.escape(model)}\.(?:train|eval|parameters|state_dict)\(")
    if loop is None or (not is_model and model not in MODELS) or bound(loop, model):
        return None
    tests = [each for each in walk(loop) if isinstance(each, ast.If) and node in walk(each)]
    if not tests or any(_ends_behind(test, node) for test in tests):
        return None
    end = loop.end_lineno or loop.lineno
    later = (each for each in walk(scope) if isinstance(each, ast.Name) and reads(each, name))
    return next((each for each in later if each.lineno > end), None)


def bound(scope: ast.AST, name: str) -> list[ast.Name]:
    """Where code binds a name; if a loop does, each iteration may have another model."""
    names = (each for each in walk(scope) if isinstance(each, ast.Name) and each.id == name)
    return [each for each in names if isinstance(each.ctx, ast.Store)]


def _ends_behind(test: ast.If, node: ast.stmt) -> bool:
    """Whether the branch with a statement leaves the loop after it: what was kept is the last then."""
    for branch in (test.body, test.orelse):
        at = next((number for number, each in enumerate(branch) if node in walk(each)), None)
        later = branch[at + 1 :] if at is not None else []
        if any(isinstance(each, ast.Break | ast.Return) for statement in later for each in walk(statement)):
            return True
    return False


def passed_on(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """The uses of a name that copy and change nothing: it is saved, also with other things, tested or returned."""
    for each in walk(scope):
        match each:
            case ast.Call(func=ast.Attribute(attr="save" | "save_file"), args=[saved, *_]):
                parts = list(_held(saved))
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()]):
                parts = [left]
            case ast.If(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                parts = list(_tested(test))
            case ast.Return(value=ast.expr() as given):
                parts = list(_held(given))
            case _:
                continue
        yield from (part for part in parts if reads(part, name))


def _held(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression holds as it is: itself, the values of a dictionary, the entries of a tuple."""
    match node:
        case ast.Dict(values=values):
            parts = values
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            parts = [each.value for each in keywords]
        case _:
            yield node
            return
    for part in parts:
        yield from _held(part)


def _tested(test: ast.expr) -> Iterator[ast.expr]:
    """What a test asks by itself: `if best`, `if not best`, `if best and epoch > 3`."""
    match test:
        case ast.UnaryOp(operand=inner):
            yield from _tested(inner)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _tested(each)
        case _:
            yield test
