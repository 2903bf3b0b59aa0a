"""Losses of the script's own that compute with chosen classes or compared scores, through which no gradient flows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

CHOICES = frozenset({"argmax", "round", "ge", "gt", "le", "lt", "sign"})
"""Functions and methods of torch whose result has no gradient, or one of zero."""


@dataclass(frozen=True, slots=True)
class HardLoss:
    """A loss whose predictions all go through a choice: where, its operation, the call of the loss, and its name."""

    location: Location
    operation: str
    used: Location
    name: str


def hard_losses(source: Source) -> list[HardLoss]:
    """The losses of a file that `backward` is called on, or that are a part of such a sum."""
    return source.cached(_hard_losses)


def _hard_losses(source: Source) -> list[HardLoss]:
    if not source.contains(r"backward\(") or not source.contains(r"\bdef \w"):
        return []
    found: list[HardLoss] = []
    for name, function in _losses(source):
        cut = source.once(_cut_of, function)
        used = _trained_with(source, name, function) if cut is not None else None
        if cut is not None and used is not None:
            found.append(HardLoss(source.location(cut[0]), cut[1], source.location(used), name))
    return found


def _losses(source: Source) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of two or more parameters, and the `forward` of modules without layers, by their names."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            yield from ((node.name, each) for each in methods if each.name == "forward")


def _cut_of(function: ast.FunctionDef) -> tuple[ast.expr, str] | None:
    """The choice that everything computed from the first parameter goes through before it is returned."""
    parameters = [each.arg for each in function.args.args if each.arg != "self"]
    if len(parameters) < 2 or any(isinstance(each, ast.If | ast.For | ast.While) for each in own_nodes(function)):
        return None
    soft, cut = {parameters[0]}, None
    for statement in function.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.Return | ast.AugAssign) else None
        names = {each.id for each in walk(value) if isinstance(each, ast.Name)} if value is not None else set[str]()
        if isinstance(statement, ast.AugAssign) or value is None:
            if (
                value is not None
                or not isinstance(statement, ast.Expr)
                or not isinstance(statement.value, ast.Constant)
            ):
                return None
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if names & soft:
            chosen = _choice(value, soft)
            if chosen is None:
                if isinstance(target, ast.Name) and cut is None:
                    soft.add(target.id)
                    continue
                if not isinstance(target, ast.Name) or not _is_size(value, soft):
                    return None  # the scores themselves are used as well
                continue
            cut = chosen
            soft -= {target.id} if isinstance(target, ast.Name) else set()
        if isinstance(statement, ast.Return):
            return cut
    return None


def _is_size(value: ast.expr, soft: set[str]) -> bool:
    """Whether an expression only asks scores for their sizes."""
    return re.search(rf"\b(?:{'|'.join(soft)})\b(?!\.(?:shape|size|numel|dim)\b)", unparse(value)) is None


def _choice(value: ast.expr, soft: set[str]) -> tuple[ast.expr, str] | None:
    """The comparison or choice that all scores in an expression are in; None if some of them are outside of one."""
    found: list[tuple[ast.expr, str]] = []
    inside = set[int]()
    for node in walk(value):
        operation = ""
        if isinstance(node, ast.Compare):
            operation = "compare"
        elif isinstance(node, ast.Call) and last_name(node.func) in CHOICES:
            operation = last_name(node.func) or ""
        if operation and isinstance(node, ast.expr):
            names = [each for each in walk(node) if isinstance(each, ast.Name) and each.id in soft]
            found += [(node, operation)] if names else []
            inside |= {id(each) for each in names}
    outside = [
        each for each in walk(value) if isinstance(each, ast.Name) and each.id in soft and id(each) not in inside
    ]
    return found[0] if found and not outside else None


def _trained_with(source: Source, name: str, function: ast.FunctionDef) -> ast.expr | None:
    """The call of a loss whose result gets `backward`."""
    callees = {name} if function.name == name else set[str]()
    for node in source.nodes_of(ast.Assign):
        made = node.value
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in {"to", "cuda"}:
            made = made.func.value
        if isinstance(made, ast.Call) and last_name(made.func) == name and function.name != name:
            callees.add(unparse(node.targets[0]))
    for node in source.nodes_of(ast.Assign) if callees else ():
        target = node.targets[0]
        calls = [each for each in walk(node.value) if isinstance(each, ast.Call) and unparse(each.func) in callees]
        if isinstance(target, ast.Name) and calls and _is_backed(source, target.id):
            return calls[0]
    return None


def _is_backed(source: Source, name: str) -> bool:
    return source.contains(rf"\b{name}\.backward\(|backward\({name}\b|scale\({name}\)")
