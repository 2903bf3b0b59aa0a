"""Loops over the folds of a cross-validation, and what gives a network its first weights again in each of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source

RENEWS = re.compile(r"load_state_dict|load_weights|set_weights|load_model|reload|load_best")
"""Calls that put weights back, whatever they are given."""

STARTS_AGAIN = re.compile(r"(?i)init|reset|deepcopy|clone|restore|^apply$|^set_")
"""Names of functions that renew a network, if that is what they are given."""


def is_over_folds(source: Source, loop: ast.For) -> bool:
    """Whether a loop trains on all rows but those of one fold, for each of the folds."""
    if "TimeSeriesSplit" in source.text or _is_left(loop):
        return False
    return _is_split(loop.iter) or _leaves_one_out(loop)


def _is_left(loop: ast.For) -> bool:
    """Whether a `break` ends the loop over folds itself; one of an inner loop does not."""
    inner = {
        id(each)
        for node in walk(loop)
        if node is not loop and isinstance(node, ast.For | ast.While)
        for each in walk(node)
    }
    return any(isinstance(each, ast.Break) and id(each) not in inner for each in walk(loop))


def _is_split(over: ast.expr) -> bool:
    """`kfold.split(x)`, with a number or without."""
    if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" and over.args:
        over = over.args[0]
    return isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "split"


def _leaves_one_out(loop: ast.For) -> bool:
    """Whether a loop takes the rows of which a column is its number, and the other rows: `df.fold != fold`."""
    if not isinstance(loop.target, ast.Name) or _skips_some(loop):
        return False
    kept, held_out = set[str](), set[str]()
    for node in walk(loop):
        match node:
            case ast.Compare(left=column, ops=[ast.NotEq() | ast.Eq() as how], comparators=[ast.Name(id=number)]):
                if number == loop.target.id:
                    (kept if isinstance(how, ast.NotEq) else held_out).add(unparse(column))
            case ast.UnaryOp(op=ast.Invert(), operand=operand) if text := _column_of(operand, loop.target.id):
                kept.add(text)
            case ast.Call() if text := _column_of(node, loop.target.id):
                held_out.add(text)
            case _:
                pass
    return bool(kept & held_out)


def _column_of(node: ast.expr, number: str) -> str:
    """The column of `df.fold == fold`, `df.fold.eq(fold)` and `df.fold.isin([fold])`; empty for other code."""
    match node:
        case ast.Compare(left=column, ops=[ast.Eq()], comparators=[ast.Name(id=name)]):
            pass
        case ast.Call(func=ast.Attribute(value=column, attr="eq"), args=[ast.Name(id=name)]):
            pass
        case ast.Call(func=ast.Attribute(value=column, attr="isin"), args=[ast.List(elts=[ast.Name(id=name)])]):
            pass
        case _:
            return ""
    return unparse(column) if name == number else ""


def _skips_some(loop: ast.For) -> bool:
    """Whether a condition on the number of the fold leaves some of them out: the others may all be left out."""
    number = unparse(loop.target)
    return any(
        isinstance(node, ast.If)
        and number in _names(node.test)
        and any(isinstance(each, ast.Continue) for each in walk(node))
        for node in walk(loop)
    )


def renews(loop: ast.For, names: Collection[str]) -> bool:
    """Whether a loop gives what has one of these names its first weights again, or another part."""
    for node in walk(loop):
        match node:
            case ast.For(iter=over) if node is not loop and not _names(over).isdisjoint(names):
                if any(STARTS_AGAIN.search(called) for _, called in _calls(node)):
                    return True  # through the layers
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in names:
                return True  # a new head
            case _:
                pass
    return any(
        RENEWS.search(called) or (STARTS_AGAIN.search(called) and _concerns(call, names))
        for call, called in _calls(loop)
    )


def _calls(loop: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in walk(loop):
        if isinstance(node, ast.Call):
            yield node, last_name(node.func)


def _concerns(call: ast.Call, names: Collection[str]) -> bool:
    """Whether a call is given one of the names, is a method of it, or is given nothing and may change anything."""
    is_own = isinstance(call.func, ast.Name) or unparse(call.func).startswith("self.")
    is_bare = is_own and not call.args and not call.keywords
    return is_bare or not _names(call).isdisjoint(names)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}
