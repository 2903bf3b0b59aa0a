"""What a name of a function was last given before a statement, by the text alone; values that a comma makes tuples."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from lintrain.analysis import origins
from lintrain.model.location import Location
from lintrain.source.nodes import named, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class Bound:
    """What a name was last given: the expression, the position in a tuple; neither where that is not followed."""

    value: ast.expr | None = None
    index: int | None = None
    is_of_loop: bool = False
    is_without_grad: bool = False


@dataclass(frozen=True, slots=True)
class Bindings:
    """The statements of a file with the blocks around them."""

    source: Source

    def before(self, name: ast.Name) -> Bound | None:
        """What a name was given before the statement that it is in; None if nothing in its function binds it."""
        blocks = self.source.cached(origins.blocks_of)
        current: ast.AST | None = origins.owner_of(self.source, name)
        while isinstance(current, ast.stmt) and current in blocks:
            block, parent = blocks[current]
            for each in reversed(block[: block.index(current)]):
                found = _bound_by(each, name.id)
                if found is not None:
                    return found
            if isinstance(parent, ast.For) and name.id in _stored(parent.target):
                return Bound(is_of_loop=True)
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                return (
                    Bound()
                    if name.id in {each.arg for each in walk(parent.args) if isinstance(each, ast.arg)}
                    else None
                )
            current = parent
        return None


def bindings(source: Source) -> Bindings:
    """The bindings of a file, to be cached with it."""
    return Bindings(source)


def _bound_by(statement: ast.stmt, name: str) -> Bound | None:
    """What a statement gives a name; None if it leaves it alone."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
            return Bound(value)
        case ast.Assign(targets=[ast.Tuple(elts=items)], value=value) if name in _stored(statement.targets[0]):
            names = [item.id if isinstance(item, ast.Name) else "" for item in items]
            values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(items) else None
            index = names.index(name) if name in names else None
            return Bound(values[index], None) if values and index is not None else Bound(value, index)
        case ast.With(items=managers, body=body):
            for each in reversed(body):
                found = _bound_by(each, name)
                if found is not None:
                    off = any(_switches_off(item.context_expr) for item in managers)
                    return replace(found, is_without_grad=found.is_without_grad or off)
            return None
        case ast.FunctionDef() | ast.ClassDef():
            return Bound() if statement.name == name else None
        case _:
            return Bound() if _stores(statement, name) else None


def _switches_off(manager: ast.expr) -> bool:
    return unparse(manager) in {"torch.no_grad()", "no_grad()", "torch.inference_mode()"}


def _stores(statement: ast.stmt, name: str) -> bool:
    found = named(statement).get(name, ())
    return any(isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) for each in found)


def _stored(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


PLURAL = lazy_pattern(r"(?i)s$|shape|size|dim|args|input|output|example|tuple|index|axis|data|param|column|item|pad")
"""Names of what may be a tuple of one item on purpose."""

RATE = lazy_pattern(r"(?i)lr|learning_rate|weight_decay|dropout(_rate)?|momentum|warmup_ratio|label_smoothing")
"""Names of settings that are one number."""

NUMBERS = frozenset({"float", "int", "str", "bool"})
MADE = lazy_pattern(
    r"^(?:(?:torch\.)?nn|(?:tf\.)?keras\.layers|layers|(?:torch\.)?optim|transforms|T)\.[A-Z]\w*\(|^field\("
)
"""Calls that make a layer, an optimizer or a transform, or describe a field of a dataclass."""


@dataclass(frozen=True, slots=True)
class TupleByComma:
    """A value that a comma at the end of its line makes a tuple: where, the code of its target, and its own code."""

    location: Location
    target: str
    code: str


def tuples_by_comma(source: Source) -> list[TupleByComma]:
    """The assignments `rate = 1e-3,` that no one means: of a fraction, a switch, a layer, or where a type says so."""
    found: list[TupleByComma] = []
    for node in source.nodes_of(ast.Assign, ast.AnnAssign):
        if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != 1:
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        location, item = source.location(node.value), node.value.elts[0]
        is_single = isinstance(node, ast.AnnAssign) and unparse(node.annotation) in NUMBERS
        # A formatter writes the comma at the end of a line as a tuple in brackets.
        is_bare = source.code(location).endswith(",")
        if is_single or (_is_made_by_comma(target, item) if is_bare else _is_rate(source, target, item)):
            found.append(TupleByComma(location, unparse(target), source.code(source.location(item))))
    return found


def _is_made_by_comma(target: ast.expr, item: ast.expr) -> bool:
    """Whether a tuple without brackets is of one value that stands for itself."""
    is_alone = isinstance(item, ast.Constant) and isinstance(item.value, bool | float)
    is_meant = PLURAL.search(unparse(target)) is not None or isinstance(target, ast.Tuple | ast.List)
    return not is_meant and (is_alone or _is_made(item))


def _is_rate(source: Source, target: ast.expr, item: ast.expr) -> bool:
    """Whether a tuple in brackets is of a setting that is one number, and no code goes through several of them."""
    name = unparse(target)
    is_fraction = isinstance(item, ast.Constant) and isinstance(item.value, float)
    return is_fraction and RATE.fullmatch(name.rpartition(".")[2]) is not None and not _is_taken_apart(source, name)


def _is_taken_apart(source: Source, name: str) -> bool:
    """Whether code goes through the values of a name, or takes one of them: a search over one rate."""
    return source.contains(rf"\bin {re.escape(name)}\b|(?<![\w.]){re.escape(name)}\[|\*{re.escape(name)}\b|product\(")


def _is_made(item: ast.expr) -> bool:
    return isinstance(item, ast.Call) and MADE.search(unparse(item)) is not None
