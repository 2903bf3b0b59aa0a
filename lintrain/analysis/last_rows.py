"""The last row of a batch, taken in place of the last step, from a recurrent layer that has the batch first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

LAYERS = frozenset({"LSTM", "GRU", "RNN"})


@dataclass(frozen=True, slots=True)
class LastRow:
    """`out[-1]` of a layer with `batch_first=True`: where, its code, and where the layer is made."""

    location: Location
    code: str
    layer: Location


def last_rows(source: Source) -> Iterator[LastRow]:
    """The last rows that methods take of the states of all steps, where no other statement binds their name."""
    if not source.contains(r"batch_first\s*=\s*True"):
        return
    for cls in source.nodes_of(ast.ClassDef):
        layers = {
            unparse(each.targets[0]): each for each in walk(cls) if isinstance(each, ast.Assign) and _is_layer(each)
        }
        for function in cls.body if layers else ():
            if isinstance(function, ast.FunctionDef):
                yield from _in(source, function, layers)


def _is_layer(made: ast.Assign) -> bool:
    match made.value:
        case ast.Call(func=called, keywords=keywords) if last_name(called) in LAYERS:
            words = {each.arg: unparse(each.value) for each in keywords}
            return words.get("batch_first") == "True" and isinstance(made.targets[0], ast.Attribute)
        case _:
            return False


def _in(source: Source, function: ast.FunctionDef, layers: dict[str, ast.Assign]) -> Iterator[LastRow]:
    nodes = own_nodes(function)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), _])], value=ast.Call(func=called)):
                layer = layers.get(unparse(called))
            case _:
                continue
        bound = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
        if layer is None or sum(not isinstance(each.ctx, ast.Load) for each in bound) != 1:
            continue
        for taken in nodes:
            match taken:
                case ast.Subscript(
                    value=ast.Name(id=given), slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))
                ) if given == name:
                    yield LastRow(source.location(taken), unparse(taken), source.location(layer))
                case _:
                    pass
