"""The small changes: each turns one node of a rule's code into another one that means something else."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

Defined = ast.FunctionDef | ast.AsyncFunctionDef
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Continue: ast.Break,
    ast.Break: ast.Continue,
}
TURNED: dict[type[ast.AST], type[ast.AST]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt}
OTHER_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
SPEAKS = {"finding", "Related", "confirmed", "refuted", "inconclusive", "of"}
"""Calls whose arguments are words for people: pages fix what they say by other demands than these."""


@dataclass(frozen=True)
class Mutant:
    """One change of one function: the function's name with its class, the line, and what becomes of what."""

    original: ast.Module
    function: str
    line: int
    position: int
    """Which of the tree's nodes is changed, in the order of `ast.walk`."""
    node: ast.AST
    changed: ast.AST

    @property
    def change(self) -> str:
        """The change as a person reads it."""
        return f"{_shown(self.node)} -> {_shown(self.changed)}"

    @property
    def tree(self) -> ast.Module:
        """The whole file with the change in it."""
        copied = copy.deepcopy(self.original)
        target = list(ast.walk(copied))[self.position]
        _Replacing(target, copy.deepcopy(self.changed)).visit(copied)
        return ast.fix_missing_locations(copied)


def mutants_of(text: str, left_out: frozenset[str]) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its text; functions of these names are left alone."""
    tree = ast.parse(text)
    functions = {name: node for name, node in functions_of(tree).items() if name.split(".")[-1] not in left_out}
    reached = _reached(functions)
    nodes = list(ast.walk(tree))
    positions = {id(node): number for number, node in enumerate(nodes)}
    for name, function in functions.items():
        if name in reached:
            for node in _changeable(function):
                for change in _changes(node):
                    yield Mutant(tree, name, _line(node), positions[id(node)], node, change)


def functions_of(tree: ast.Module) -> dict[str, Defined]:
    """The functions of the top level and the methods of its classes, by name."""
    found: dict[str, Defined] = {}
    for node in tree.body:
        if isinstance(node, Defined):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}": each for each in node.body if isinstance(each, Defined)}
    return found


def _reached(functions: dict[str, Defined]) -> set[str]:
    """The functions that are used, at any remove, by what is not left out of a rule's own methods; else all."""
    reached = {name for name in functions if name.endswith((".check", ".fix", ".verify", ".inspect"))}
    if not reached:
        return {*functions}
    waiting = list(reached)
    while waiting:
        inside = list(ast.walk(functions[waiting.pop()]))
        names = {node.id for node in inside if isinstance(node, ast.Name)}
        names |= {node.attr for node in inside if isinstance(node, ast.Attribute)}
        further = {name for name in functions if name.split(".")[-1] in names} - reached
        reached |= further
        waiting += further
    return reached


def _changeable(function: Defined) -> Iterator[ast.AST]:
    """The nodes of a function's body that decide something: no docstrings, annotations or words for people."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _name(node.func) in SPEAKS):
            continue
        yield node
        types = [getattr(node, name, None) for name in ("annotation", "returns")]
        waiting += reversed([child for child in ast.iter_child_nodes(node) if child not in types])


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node can be changed to."""
    match node:
        case ast.Compare(ops=[operator], comparators=[right]) if type(operator) in TURNED and _are_orders(
            node.left, right
        ):
            yield _with(node, ops=[TURNED[type(operator)]()])
        case ast.Compare(ops=[operator, *others]) if type(operator) in OTHER:
            yield _with(node, ops=[OTHER[type(operator)](), *others])
        case ast.BoolOp(op=operator, values=values):
            yield _with(node, op=OTHER[type(operator)]())
            yield from (_without(values, number, operator) for number in range(len(values)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=operator) if type(operator) in OTHER:
            yield _with(node, op=OTHER[type(operator)]())
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.If(test=test) | ast.IfExp(test=test) if not _is_negated_itself(test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[_, *_]):
            yield _with(node, ifs=[])
        case ast.match_case(guard=ast.expr()):
            yield _with(node, guard=None)
        case ast.Call(func=ast.Name(id=name)) if name in OTHER_CALLS:
            yield _with(node, func=ast.Name(OTHER_CALLS[name], ast.Load()))
        case ast.Continue() | ast.Break():
            yield OTHER[type(node)]()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case _:
            pass


def _are_orders(left: ast.expr, right: ast.expr) -> bool:
    """Whether a comparison is one of events by their order: no two have the same, so `<=` would say what `<` says."""
    return all(isinstance(side, ast.Attribute) and side.attr == "order" for side in (left, right))


def _is_negated_itself(test: ast.expr) -> bool:
    """Whether a change of the test alone gives its negation: the same mutant is not made twice."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
        case _:
            return False


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _without(values: list[ast.expr], number: int, operator: ast.boolop) -> ast.expr:
    left = values[:number] + values[number + 1 :]
    return left[0] if len(left) == 1 else ast.BoolOp(operator, left)


def _line(node: ast.AST) -> int:
    lines: list[int] = [each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt | ast.expr)]
    return min(lines)


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}…"


class _Replacing(ast.NodeTransformer):
    """Puts one node in place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.old:
            if isinstance(self.new, ast.expr | ast.stmt):
                ast.copy_location(self.new, node)
            return self.new
        return super().generic_visit(node)
