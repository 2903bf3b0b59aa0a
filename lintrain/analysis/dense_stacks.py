"""Dense layers of Keras that follow each other without an activation: in a list, by `add`, or in functional code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lintrain.analysis import origins, script_text
from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

ON_PURPOSE = lazy_pattern(r"(?i)rank|bottle|factor|latent|embed|encod|code|proj|mean|var|mu\b|logit|linear|low")
"""Names of layers that are linear on purpose: a code, an embedding, the parameters of a distribution."""

WIDE = 16
"""Units from which a layer is no code between two larger ones."""


def stacked_dense(source: Source) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The pairs of dense layers of which the first has no activation, in a stack that has activations elsewhere."""
    if "keras" not in source.text or source.text.count("Dense(") < 2:
        return
    for stack in _stacks(source):
        if any(map(_has_activation, stack)):
            for one, other in pairwise(each for each in stack if last_name(each.func) != "Dropout"):
                if last_name(one.func) == last_name(other.func) == "Dense" and _is_hidden(source, one, other):
                    yield one, other


def _stacks(source: Source) -> Iterator[list[ast.Call]]:
    """The layers of each network in their order, as far as their calls are written next to each other."""
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) == "Sequential" and call.args and isinstance(call.args[0], ast.List):
            items = call.args[0].elts
            layers = [each for each in items if isinstance(each, ast.Call)]
            if len(layers) == len(items):
                yield layers
    yield from _added(source, source.tree.body)
    blocks: Sequence[ast.FunctionDef | ast.For | ast.If | ast.With]
    blocks = source.nodes_of(ast.FunctionDef, ast.For, ast.If, ast.With)
    for node in blocks:
        yield from _added(source, node.body)


def _added(source: Source, body: Sequence[ast.stmt]) -> Iterator[list[ast.Call]]:
    """The layers that neighbouring statements of one block add to one network, or apply one to the other."""
    stack: list[ast.Call] = []
    owner = ""
    for statement in body:
        name, given, layer = _layer_of(statement)
        if layer is None or given != owner or (name != given and _is_read_below(source, given, statement, body)):
            yield from [stack] if len(stack) > 1 else []
            stack = []
        if layer is not None:
            stack.append(layer)
            owner = name
    yield from [stack] if len(stack) > 1 else []


def _is_read_below(source: Source, name: str, statement: ast.stmt, body: Sequence[ast.stmt]) -> bool:
    """Whether the output of a layer goes to more than the next one, as an embedding does."""
    first, last = statement.end_lineno or statement.lineno, body[-1].end_lineno or body[-1].lineno
    uses = script_text.uses_of(source, name)
    return any(use.is_read and first < use.location.line <= last for use in uses)


def _layer_of(statement: ast.stmt) -> tuple[str, str, ast.Call | None]:
    """The name that a statement gives its result, the name that it continues, and the layer that it builds."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="add"), args=[ast.Call() as layer])):
            return unparse(owner), unparse(owner), layer
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Call() as layer, args=[ast.Name(id=given)])
        ):
            return name, given, layer
        case _:
            return "", "", None


def _has_activation(layer: ast.Call) -> bool:
    if last_name(layer.func) in {"Activation", "ReLU", "LeakyReLU", "ELU", "PReLU"}:
        return True
    return any(each.arg == "activation" and unparse(each.value) not in LINEAR for each in layer.keywords)


LINEAR = frozenset({"None", "'linear'"})


def _is_hidden(source: Source, one: ast.Call, other: ast.Call) -> bool:
    """Whether the first of two layers has no activation, and is no narrow or named part of the network."""
    units, following = _units(one), _units(other)
    is_plain = not any(each.arg in {None, "activation"} for each in one.keywords) and len(one.args) < 2
    names = [each.value for each in one.keywords if each.arg == "name"]
    if not is_plain or units is None or any(ON_PURPOSE.search(unparse(each)) for each in (*names, units)):
        return False
    size, next_size = _size(source, units), _size(source, following) if following is not None else None
    if size is None:
        return next_size == 1
    return size >= WIDE and (next_size is None or next_size <= size)


def _units(layer: ast.Call) -> ast.expr | None:
    return layer.args[0] if layer.args else next((each.value for each in layer.keywords if each.arg == "units"), None)


def _size(source: Source, units: ast.expr) -> int | None:
    """The number of units, also by a name that the file gives a number."""
    found = [each.expression for each in origins.origins(source, units)] if isinstance(units, ast.Name) else [units]
    values = [each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    return min(values) if values and len(values) == len(found) else None
