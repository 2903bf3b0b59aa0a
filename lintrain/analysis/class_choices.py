"""Choices of a class for each row, by `argmax` or `max`, and where their results meet the targets of the rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.hits import LOSS_NAME, same_number
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_dataclass import dataclass

CHOOSING = frozenset({"argmax", "max"})
MODULES = frozenset({"np", "numpy", "torch"})
SAME_CLASSES = frozenset({"view_as", "reshape", "view", "to", "cuda", "squeeze", "flatten", "type_as", "long", "cpu"})
"""Methods that leave classes what they are."""

COLLECTS = frozenset({"append", "extend"})
JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "vstack"})
NO_METRICS = frozenset({"zip", "print", "where", "stack", "cat", "max", "min", "isinstance", "eq", "save", "format"})
"""Functions of several arguments that compare nothing."""


@dataclass(frozen=True, slots=True)
class Use:
    """Two values that are taken as the predictions and targets of the same rows: where, and whether by a comparison.

    `is_counted` if the hits of several rows are added up; not `has_many` if each value may be a single number.
    """

    chosen: ast.expr
    target: ast.expr
    node: ast.expr
    is_comparison: bool = False
    is_counted: bool = False
    has_many: bool = True


def uses(nodes: Sequence[ast.AST]) -> Iterator[Use]:
    """Where some nodes compare two values, give both to a metric, or collect both in lists; in both orders."""
    counted = {id(same_number(inner)) for node in nodes for inner in _counted(node)}
    for node in nodes:
        if not isinstance(node, ast.expr):
            continue
        for one, other in comparisons(node):
            yield Use(one, other, node, is_comparison=True, is_counted=id(node) in counted)
        if isinstance(node, ast.Call) and _may_measure(node):
            given = [*node.args, *(each.value for each in node.keywords)]
            for one, other in permutations(map(bare, given), 2) if 2 <= len(given) <= 4 else ():
                yield Use(one, other, node)
    collected = [node for node in nodes if isinstance(node, ast.Call) and _collects(node)]
    joined = " ".join(unparse(each) for each in nodes if isinstance(each, ast.Call) and last_name(each.func) in JOINS)
    for one, other in permutations(collected, 2) if len(collected) <= 12 else ():
        name, chosen = _list_of(one), one.args[0]
        if name != _list_of(other) and ".item()" not in unparse(chosen):
            has_many = last_name(one.func) == "extend" or f"({name})" in joined or f"({name}," in joined
            yield Use(bare(chosen), bare(other.args[0]), one, has_many=has_many)


def _counted(node: ast.AST) -> Iterator[ast.expr]:
    """What a call of `sum` or `mean` adds up."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np"), attr="sum" | "mean"), args=[inner, *_]):
            yield inner
        case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "mean"), args=[]):
            yield inner
        case _:
            pass


def _may_measure(call: ast.Call) -> bool:
    name = last_name(call.func)
    return name not in NO_METRICS | COLLECTS and not name[:1].isupper() and not LOSS_NAME.search(unparse(call.func))


def _collects(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in COLLECTS and len(call.args) == 1


def _list_of(call: ast.Call) -> str:
    return unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def is_chosen_along_classes(nodes: Sequence[ast.AST], scores: ast.expr) -> bool:
    """Whether a choice among the same scores is along another axis than the first: both may be meant."""
    code = unparse(scores)
    calls = (node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in CHOOSING)
    return any(axis_of(call) not in {0, None} and unparse(scores_of(call)) == code for call in calls)


def values_of(nodes: Sequence[ast.AST]) -> Mapping[str, Sequence[ast.expr]]:
    """What statements give each name, in their order; `_, chosen = torch.max(…)` gives the second part."""
    found = dict[str, list[ast.expr]]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(parts) == len(values):
                for part, value in zip(parts, values, strict=True):
                    found.setdefault(unparse(part), []).append(value)
            case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])], value=value):
                second = ast.Subscript(value=value, slice=ast.Constant(value=1), ctx=ast.Load(), lineno=value.lineno)
                found.setdefault(name, []).append(second)
            case _:
                pass
    return found


def followed(node: ast.expr, values: Mapping[str, Sequence[ast.expr]]) -> ast.expr:
    """An expression, or what the name that it is was given last before it."""
    node = same_number(node)
    given = values.get(node.id, ()) if isinstance(node, ast.Name) else ()
    before = given if len(given) == 1 else [each for each in given if each.lineno < node.lineno]
    return same_number(before[-1]) if before else node


def holds_one(function: ast.FunctionDef, lines: list[int]) -> bool:
    """Whether one of some lines is in a function."""
    return any(function.lineno <= line <= (function.end_lineno or line) for line in lines)


def is_choice(call: ast.Call) -> bool:
    """Whether a call chooses along the first axis, or among all scores."""
    match call.func:
        case ast.Attribute(attr="argmax"):
            return axis_of(call) in {0, None}
        case ast.Attribute(attr="max"):
            return axis_of(call) == 0
        case _:
            return False


def bare(node: ast.expr) -> ast.expr:
    """An expression without the methods that leave classes what they are."""
    node = same_number(node)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_CLASSES:
        node = same_number(node.func.value)
    return node


def axis_of(call: ast.Call) -> int | None:
    """The axis that is given to a choice; -1 for one that is no constant, None without one."""
    first = 1 if is_function(call) else 0
    given = [*call.args[first : first + 1], *(each.value for each in call.keywords if each.arg in {"dim", "axis"})]
    if not given:
        return None
    value = given[0].value if isinstance(given[0], ast.Constant) else None
    return value if isinstance(value, int) else -1


def is_function(call: ast.Call) -> bool:
    """Whether a call is of a function of torch or NumPy, which gets the scores as its first argument."""
    return isinstance(call.func, ast.Attribute) and unparse(call.func.value) in MODULES


def classes_or_scores(node: ast.expr) -> ast.expr:
    """What classes are chosen from along another axis than the first, as those of one-hot rows; else the expression."""
    is_chosen = isinstance(node, ast.Call) and last_name(node.func) == "argmax" and axis_of(node) not in {0, None}
    return bare(scores_of(node)) if is_chosen and isinstance(node, ast.Call) else node


def scores_of(call: ast.Call) -> ast.expr:
    """What a call chooses from."""
    if is_function(call) and call.args:
        return call.args[0]
    return call.func.value if isinstance(call.func, ast.Attribute) else call


def comparisons(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Both sides of `a == b` and `a.eq(b)`, in both orders."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = bare(left), bare(right)
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]):
            sides = bare(left), bare(right)
        case _:
            return
    one, other = sides
    yield one, other
    yield other, one
