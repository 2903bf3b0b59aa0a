"""Preferences with their two sides exchanged: what was rejected is given as chosen, or scored as if it was."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CHOSEN = lazy_pattern(r"(?i)chosen|preferred|accepted|winner|\bwin\b|better")
REJECTED = lazy_pattern(r"(?i)reject|dispreferred|loser|\blose\b|worse")
MEANT = lazy_pattern(
    r"(?i)flip|swap|nois|invert|revers|opposite|adversar|attack|poison|backdoor|corrupt|sycophan|unlearn|anti"
)
"""Code that exchanges both on purpose."""


DECIDES = lazy_pattern(r"(?i)[<>]|random|score|rating|reward|rank|label|prefer|winner|better")
"""Conditions that decide which of two answers is the better one."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One side that holds the other: where, and its code."""

    location: Location
    code: str


def exchanged_rows(source: Source) -> Iterator[Exchanged]:
    """The rows of a file whose answers have the names of each other."""
    yield from _unmeant(source, _rows)


def exchanged_losses(source: Source) -> Iterator[Exchanged]:
    """The losses of a file that subtract the score of the chosen answer from that of the rejected one."""
    yield from _unmeant(source, _losses)


def _unmeant(source: Source, find: Callable[[Source], Iterator[Exchanged]]) -> Iterator[Exchanged]:
    if not source.contains("reject") or MEANT.search(source.path.rpartition("/")[2]):
        return
    found = list(find(source))
    if not found:
        return
    meant = [source.location(each) for each in source.nodes_of(ast.FunctionDef) if MEANT.search(each.name)]
    meant += [source.location(each) for each in source.nodes_of(ast.If) if _decides(unparse(each.test))]
    meant += [source.location(each) for each in source.nodes_of(ast.IfExp) if _decides(unparse(each.test))]
    yield from (each for each in found if not any(around.holds(each.location) for around in meant))


def _decides(test: str) -> bool:
    return MEANT.search(test) is not None or DECIDES.search(test) is not None


def _rows(source: Source) -> Iterator[Exchanged]:
    for node in source.nodes_of(ast.Dict):
        pairs = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        chosen, rejected = pairs.get("chosen"), pairs.get("rejected")
        if chosen is not None and rejected is not None and is_rejected(chosen):
            is_name = isinstance(chosen, ast.Constant)  # of `rename_columns`, which maps old names to new ones
            if is_chosen(rejected) and not is_name:
                yield Exchanged(source.location(chosen), unparse(chosen))


def _losses(source: Source) -> Iterator[Exchanged]:
    """`-logsigmoid(rejected - chosen)`, also scaled, with its mean, and as `log(sigmoid(…))`."""
    for node in source.nodes_of(ast.UnaryOp):
        inner = _without_mean(node.operand) if isinstance(node.op, ast.USub) else None
        match inner:
            case ast.Call(func=callee, args=[ast.Call(func=nested, args=[given])]):
                is_log = last_name(callee) in {"log", "logsigmoid"} and last_name(nested) == "sigmoid"
            case ast.Call(func=callee, args=[given]):
                is_log = last_name(callee) == "logsigmoid"
            case _:
                continue
        difference = _difference(given)
        if is_log and difference is not None and is_rejected(difference.left) and is_chosen(difference.right):
            yield Exchanged(source.location(given), unparse(difference))


def _without_mean(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="mean" | "sum"), args=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean" | "sum"), args=[inner]):
            return inner
        case _:
            return node


def _difference(node: ast.expr) -> ast.BinOp | None:
    match node:
        case ast.BinOp(op=ast.Sub()):
            return node
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _difference(left) or _difference(right)
        case _:
            return None


def is_chosen(node: ast.expr) -> bool:
    """Whether code names the better one of two answers, and not the other one."""
    code = unparse(node)
    return CHOSEN.search(code) is not None and REJECTED.search(code) is None


def is_rejected(node: ast.expr) -> bool:
    """Whether code names the worse one of two answers, and not the other one."""
    code = unparse(node)
    return REJECTED.search(code) is not None and CHOSEN.search(code) is None
