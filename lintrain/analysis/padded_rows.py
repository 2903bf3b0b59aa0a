"""Functions that pad the rows of a batch one by one: inputs and labels, each with a number of its own.

labels = torch.full((len(batch), longest), 0)
for i, row in enumerate(batch):
    labels[i, : len(row)] = torch.tensor(row)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

FILLS = {"zeros": 0, "ones": 1, "new_zeros": 0, "new_ones": 1}
MAKES = frozenset({*FILLS, "full", "new_full", "pad_sequence"})


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Padded rows of a batch: where, the name that they get, and the number that they are padded with."""

    location: Location
    name: str
    number: int


def padded_rows(source: Source) -> Iterator[PaddedRows]:
    """The padded parts of a batch that a function returns with other padded parts."""
    if not calls_of(source, MAKES):
        return
    for function in source.nodes_of(ast.FunctionDef):
        found = source.once(_padded_in, function)
        for node, name, number in found if len(found) > 1 else ():
            padding = _number(source, number) if isinstance(number, ast.expr) else number
            if padding is not None:
                yield PaddedRows(source.location(node), name, padding)


def _padded_in(function: ast.FunctionDef) -> list[tuple[ast.Call, str, ast.expr | int | None]]:
    """The calls in a function that make or pad what it returns, with names and numbers."""
    nodes = own_nodes(function)
    returned = {each.id for node in nodes if isinstance(node, ast.Return) for each in _names(node)}
    filled = {
        unparse(each.targets[0].value)
        for each in nodes
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Subscript)
    }
    found: list[tuple[ast.Call, str, ast.expr | int | None]] = []
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if name in returned:
                made = last_name(call.func)
                if made == "pad_sequence" or (made in MAKES and name in filled):
                    found.append((call, name, _padding(call, made)))
            case _:
                pass
    return found


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in walk(node) if isinstance(each, ast.Name)]


def _padding(call: ast.Call, made: str) -> ast.expr | int | None:
    named = {each.arg: each.value for each in call.keywords}
    if made == "pad_sequence":
        return named.get("padding_value", call.args[2] if len(call.args) > 2 else 0)
    if made in FILLS:
        return FILLS[made]
    return named.get("fill_value", call.args[1] if len(call.args) > 1 else None)


def _number(source: Source, node: ast.expr) -> int | None:
    """A whole number, itself or by a name that is given it once."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Name(id=name):
            made = loss_terms.assigned(source, name)
            is_number = len(made) == 1 and isinstance(made[0], ast.Constant | ast.UnaryOp)
            return _number(source, made[0]) if is_number else None
        case _:
            return None


def is_selected(source: Source, target: str) -> bool:
    """Whether code selects some of the labels before a loss gets them: `labels[mask]`, `pack_padded_sequence`."""
    name = target.partition(".")[0].partition("[")[0].strip()
    if "[" in target and any(_selects(each) for each in walk(ast.parse(target.strip(), mode="eval"))):
        return True
    return any(_selects(node) for value in loss_terms.assigned(source, name) for node in walk(value))


def _selects(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Slice() | ast.Constant() | ast.Tuple()):
            return False
        case ast.Subscript():
            return True
        case ast.Call(func=function):
            return last_name(function) in {"pack_padded_sequence", "masked_select", "masked_fill", "where", "nonzero"}
        case _:
            return False
