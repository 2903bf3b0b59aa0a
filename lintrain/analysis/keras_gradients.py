"""Operations that no gradient flows through, in the losses and layers of Keras networks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline.modules import MOST_PARTS
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Layer, Network
from lintrain.pipeline.values.python import Constant, Function, Instance, Library, Value
from lintrain.pipeline.values.training import KerasRun
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WITHOUT_GRADIENT = frozenset(
    {
        *("argmax", "argmin", "argsort", "bincount", "ceil", "confusion_matrix", "count_nonzero", "equal", "floor"),
        *("greater", "greater_equal", "less", "less_equal", "not_equal", "rint", "round", "searchsorted", "sign"),
    }
)
"""Functions of Keras and TensorFlow whose result has no gradient, or one of zero everywhere."""

PACKAGES = ("keras.", "tensorflow.")
METHODS = ("call", "get_output")
"""The methods in which a layer of the script's own computes; Keras 0 had the second one."""

TRAINED = frozenset({"Conv1D", "Conv2D", "Conv3D", "Dense", "Embedding", "GRU", "LSTM", "SimpleRNN"})
"""Layers with weights."""


@dataclass(frozen=True, slots=True)
class Cut:
    """An operation without a gradient that all of a result goes through: where, its name, and who computes with it."""

    location: Location
    name: str
    used: Location
    is_loss: bool


def cut_gradients(pipeline: Pipeline) -> Iterator[Cut]:
    """The losses that networks are compiled with, and the layers behind trained ones, that let no gradient through."""
    for run in pipeline.keras_runs:
        given = run.compile_arguments.get("loss")
        function = _loss_function(pipeline, given.value) if given is not None else None
        if given is not None and function is not None and (cut := _cut_in(pipeline, function, -1)) is not None:
            yield Cut(cut[0], cut[1], given.location, True)
        behind = False
        for part in _parts_of(run):
            is_trained = isinstance(part, Layer) and part.name in TRAINED
            if behind and (found := _cut_of_layer(pipeline, part)) is not None and part.origin is not None:
                yield Cut(found[0], found[1], part.origin, False)
            behind = behind or is_trained


def _parts_of(run: KerasRun) -> list[Value]:
    """The layers of a network in their order, as far as they form a chain."""
    network = run.model
    if not isinstance(network, Network):
        return []
    if network.path == "keras.Sequential":
        return list(network.layers)
    chain: list[Value] = []
    part: Value | None = network.last
    while isinstance(part, Layer) and len(chain) < MOST_PARTS:
        chain.append(part)
        part = part.inputs[0] if len(part.inputs) == 1 else None
    return chain[::-1]


def _loss_function(pipeline: Pipeline, loss: Value) -> Function | None:
    """A loss that the script defines, also where its name is passed as text."""
    if isinstance(loss, Constant) and isinstance(loss.value, str):
        named = (each.value for each in pipeline.bindings if each.name == loss.value)
        loss = next((each for each in named if isinstance(each, Function)), loss)
    return loss if isinstance(loss, Function) and len(loss.node.args.args) == 2 else None


def _cut_of_layer(pipeline: Pipeline, part: Value) -> tuple[Location, str] | None:
    if isinstance(part, Instance):
        method = next((found[1] for name in METHODS if (found := part.cls.lookup(name)) is not None), None)
        return _cut_in(pipeline, method, 1) if isinstance(method, Function) else None
    if not isinstance(part, Layer) or part.name != "Lambda":
        return None
    given = part.arguments.get("0", part.arguments.get("function"))
    if isinstance(given, Library) and given.name in WITHOUT_GRADIENT and given.path.startswith(PACKAGES):
        made = part.made or part.origin
        return (made, given.name) if made is not None else None
    return _cut_in(pipeline, given, 0) if isinstance(given, Function) else None


def _cut_in(pipeline: Pipeline, function: Function, position: int) -> tuple[Location, str] | None:
    """The operation that all a function returns of one of its parameters goes through."""
    node = function.node
    source = pipeline.source_of(function.origin) if function.origin else pipeline.source
    parameters = [each.arg for each in node.args.args]
    if not -len(parameters) <= position < len(parameters):
        return None
    live, cuts = {parameters[position]}, dict[str, ast.expr]()
    body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    found: ast.expr | None = None
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                cut, is_live = _cut_of(value, live, cuts), not live.isdisjoint(_names(value))
                live.discard(name)
                cuts.pop(name, None)
                if cut is not None:
                    cuts[name] = cut
                elif is_live:
                    live.add(name)
            case ast.Return(value=ast.expr() as value):
                found = _cut_of(value, live, cuts)
                if found is None:
                    return None
            case ast.Expr():
                pass
            case _:
                return None
    return (source.location(found), unparse(_operator(found))) if found is not None else None


def _operator(node: ast.expr) -> ast.AST:
    return node.func if isinstance(node, ast.Call) else node


def _cut_of(value: ast.expr, live: set[str], cuts: dict[str, ast.expr]) -> ast.expr | None:
    """The first operation without a gradient in an expression, if nothing of what is followed goes around one."""
    found: list[ast.expr] = []
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if node.id in live:
                return None
            found.extend([cuts[node.id]] if node.id in cuts else [])
        elif _is_cut(node):
            found.extend([node] if isinstance(node, ast.expr) and _names(node) & (live | cuts.keys()) else [])
        elif not (isinstance(node, ast.Attribute) and node.attr in {"shape", "dtype"}):
            pending.extend(ast.iter_child_nodes(node))
    return found[-1] if found else None


def _is_cut(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return True
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func) in WITHOUT_GRADIENT
    )


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def symbolic_gradients(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The calls of `tape.gradient` by `model.inputs`, which are no tensors of any pass, and the code of these."""
    for source in pipeline.sources.values():
        tapes = {
            item.optional_vars.id
            for node in source.nodes_of(ast.With)
            for item in node.items
            if isinstance(item.optional_vars, ast.Name) and last_name_of_call(item.context_expr) == "GradientTape"
        }
        for call in source.nodes_of(ast.Call) if tapes else ():
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=tape), attr="gradient"),
                    args=[_, ast.Attribute(value=ast.Name(id=owner), attr="input" | "inputs") as by],
                ) if tape in tapes and owner != "self":
                    yield source.location(call), unparse(by)
                case _:
                    pass


def last_name_of_call(node: ast.expr) -> str:
    """The last part of the name of what is called; empty for other code."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def unused_gradients(source: Source) -> Iterator[tuple[Location, str]]:
    """The gradients of all weights that a tape gives to a name which is never read: where, and the name."""
    if "GradientTape" not in source.text:
        return
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        for node in own_nodes(scope):
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="gradient"), args=[_, weights])
                ) if last_name(weights) in WEIGHTS:
                    inside = walk(scope)
                    if not any(isinstance(each, ast.Name) and each.id == name and _is_read(each) for each in inside):
                        yield source.location(node), name
                case _:
                    pass


WEIGHTS = frozenset({"trainable_variables", "trainable_weights"})


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
