"""Layers that a network never calls, and whose weights it reads without a gradient.

x = torch.cat([self.users.weight.data, self.items.weight.data])
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

READS = lazy_pattern(r"\.(?:weight|bias)\.(?:data\b|detach\(\))")
LAYER = lazy_pattern(r"^(?:torch\.)?nn\.(?:Linear|Embedding|EmbeddingBag|Bilinear|Conv\w*)\(")
UPDATES = r"{name}\.\w+\.data(?:\.\w+_\(|\[[^\n]*\] *[-+*/]?=(?!=)| *[-+*/]?=(?!=))"
FROZEN = r"{name}\b[^\n]*(?:requires_grad|parameters\()"


@dataclass(frozen=True, slots=True)
class CutLayer:
    """A weight of a layer of which only the numbers are read: where, its code, and where the layer is made."""

    location: Location
    weight: str
    made: Location


def cut_layers(source: Source) -> Iterator[CutLayer]:
    """The layers of which a network reads nothing but `.weight.data` or `.weight.detach()`, one for each line."""
    if not source.contains(READS):
        return
    for cls in source.nodes_of(ast.ClassDef):
        methods = [each for each in cls.body if isinstance(each, ast.FunctionDef)]
        used = [each for each in methods if each.name != "__init__"]
        layers = {name: made for each in methods if each.name == "__init__" for name, made in _layers(each)}
        if not layers or not any(each.name == "forward" for each in used):
            continue
        nodes = [node for each in used for node in walk(each) if isinstance(node, ast.Attribute)]
        lines = set[int]()
        for name, made in layers.items():
            reads = [each for each in nodes if unparse(each) == f"self.{name}"]
            cuts = [each for each in nodes if _is_cut(each, name)]
            if not cuts or len(cuts) != len(reads) or cuts[0].lineno in lines:
                continue
            lines.add(cuts[0].lineno)
            named = re.escape(name)
            if not source.contains(UPDATES.format(name=named)) and not source.contains(FROZEN.format(name=named)):
                yield CutLayer(source.location(cuts[0]), unparse(cuts[0].value), source.location(made))


def _layers(function: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    """The attributes that a constructor gives layers with weights to learn."""
    for node in walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as made
            ) if LAYER.search(unparse(made)):
                yield name, made
            case _:
                pass


def _is_cut(node: ast.Attribute, name: str) -> bool:
    """Whether an attribute takes the weight of a layer off the graph: `self.name.weight.data`."""
    match node:
        case ast.Attribute(
            value=ast.Attribute(value=layer, attr="weight" | "bias"), attr="data" | "detach", ctx=ast.Load()
        ):
            return unparse(layer) == f"self.{name}"
        case _:
            return False
