"""Layers that a network builds and never applies, while a layer that is built like them is applied twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WITH_WEIGHTS = lazy_pattern(
    r"^(?:Linear|Embedding|LSTM|GRU|RNN|(?:Lazy)?(?:Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d|LayerNorm|GroupNorm|"
    r"RMSNorm|MultiheadAttention|\w+Conv)$"
)
"""Layers whose weights differ, so that one cannot stand for another; `GCNConv` is one of a library for graphs."""

NUMBERED = lazy_pattern(r"^(.*?)_?(\d+|[a-c])$")
"""Names of layers that are counted: `conv2`, `fc_2`, `fc_b`."""

FINDS_BY_NAME = frozenset({"getattr", "_modules", "children", "named_children", "__dict__", "get_submodule", "modules"})
"""What reaches layers of a network without writing their names."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A layer that is never applied, and the last use of the one that is applied in its place."""

    name: str
    made: ast.expr
    used: str
    use: ast.Call


def may_have_twins(source: Source) -> bool:
    """Whether some class of a file numbers its layers and leaves one of them out."""
    return any(True for _ in unapplied_twins(source))


def unapplied_twins(source: Source) -> list[Twin]:
    """The layers of a file that are never applied, with a twin that is applied twice."""
    return source.cached(_unapplied_twins)


def _unapplied_twins(source: Source) -> list[Twin]:
    return [twin for owner in source.nodes_of(ast.ClassDef) for twin in _in_class(source, owner)]


def _in_class(source: Source, owner: ast.ClassDef) -> Iterator[Twin]:
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    if "__init__" not in methods or "forward" not in methods:
        return
    made = _numbered_layers(methods["__init__"])
    pairs = [(name, other) for name in made for other in made if name != other and _are_twins(made, name, other)]
    if not pairs or any(last_name(each) in FINDS_BY_NAME for each in _names_in(owner)):
        return
    calls = [node for node in own_nodes(methods["forward"]) if isinstance(node, ast.Call)]
    for name, other in pairs:
        uses = [call for call in calls if unparse(call.func) == f"self.{other}"]
        if len(uses) > 1 and not _is_read(source, owner, name):
            last = max(uses, key=lambda call: (call.lineno, call.col_offset))
            yield Twin(name, made[name], other, last)
            return


def _numbered_layers(init: ast.FunctionDef) -> dict[str, ast.Call]:
    """The layers with weights that a constructor sets once, under a name with a number, outside of a condition."""
    found: dict[str, ast.Call] = {}
    renewed = set[str]()
    for node in walk(init):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                renewed.update({name} if name in found else ())
                if isinstance(value, ast.Call) and WITH_WEIGHTS.search(last_name(value.func)) and NUMBERED.match(name):
                    found[name] = value
            case _:
                pass
    return {name: value for name, value in found.items() if name not in renewed}


def _are_twins(made: dict[str, ast.Call], name: str, other: str) -> bool:
    """Whether two names are counted in one series, and their layers are built by the same code."""
    one, two = NUMBERED.match(name), NUMBERED.match(other)
    return bool(one and two and one[1] == two[1] and unparse(made[name]) == unparse(made[other]))


def _names_in(owner: ast.ClassDef) -> list[ast.expr]:
    return [node for node in walk(owner) if isinstance(node, ast.Name | ast.Attribute)]


def _is_read(source: Source, owner: ast.ClassDef, name: str) -> bool:
    """Whether code may use a layer of a class by its name; to set its first weights is no use."""
    initialized = {
        id(part.value)
        for call in source.nodes_of(ast.Call)
        if "init" in unparse(call.func)
        for argument in call.args
        for part in walk(argument)
        if isinstance(part, ast.Attribute)
    }
    texts = (node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str))
    if name in texts:
        return True
    reads = (node for node in source.named(name) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    used = [node for node in reads if id(node) not in initialized]
    if any(owner.name in map(last_name, each.bases) for each in source.nodes_of(ast.ClassDef)):
        return bool(used)
    inside = {id(node) for node in walk(owner)}
    return any(id(node) in inside or unparse(node.value) != "self" for node in used)
