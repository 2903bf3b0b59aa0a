"""Layers that each pass of a network, or each batch, builds, uses and drops, so that their weights are always new."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Set

from lintrain.analysis.built_layers import last_name, own_calls
from lintrain.analysis.module_classes import module_classes
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

LEARNS = frozenset(
    {"Linear", "LazyLinear", "Bilinear", "Embedding", "EmbeddingBag", "MultiheadAttention", "Parameter"}
    | {f"{kind}{axes}d" for kind in ("Conv", "ConvTranspose", "LazyConv") for axes in (1, 2, 3)}
    | {f"{kind}{cell}" for kind in ("RNN", "LSTM", "GRU") for cell in ("", "Cell")}
)
"""What starts with random weights, so that training is what gives it a meaning."""

RANDOM = frozenset({"randn", "rand", "empty", "Tensor", "FloatTensor", "zeros", "ones"})
"""Functions that give a parameter its first numbers."""

OF_KERAS = frozenset(
    {"Dense", "Embedding", "LSTM", "GRU", "SimpleRNN", "MultiHeadAttention", "BatchNormalization", "LayerNormalization"}
    | {f"{kind}{axes}D" for kind in ("Conv", "SeparableConv") for axes in (1, 2, 3)}
    | {"Conv2DTranspose", "DepthwiseConv2D"}
)
"""The same among the layers of Keras."""

MOVES = frozenset({"to", "cuda", "cpu", "float", "double", "half", "type", "train"})
"""Methods that give back the layer that they belong to."""

HANDS_ON = lazy_pattern(r"register|append|setattr|extend|add_|insert|load|copy|orthogonal_|eye_|dirac_")
"""Functions that keep a parameter, or give it weights that need no training."""


def may_renew(source: Source) -> bool:
    """Whether a pass of a network, or a loop that trains, names a layer with weights."""
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in LEARNS | OF_KERAS
        for scope, _ in source.cached(_passes)
        for node in walk(scope)
    )


def renewed(pipeline: Pipeline) -> Iterator[tuple[str, Location, bool]]:
    """The layers that each pass builds, uses and drops: the class, where, and whether a network's method does it."""
    source = pipeline.source
    passes = source.cached(_passes)
    nodes = {location: name for name, location in _learning(pipeline)} if passes else {}
    for scope, is_method in passes:
        calls = [each for each in walk(scope) if isinstance(each, ast.Call) and source.location(each) in nodes]
        around = scope if is_method or not calls else blocks.scope_of(pipeline, source.location(scope))
        for call in calls:
            name = nodes[source.location(call)]
            if _is_dropped_after_use(scope, around, call, name):
                yield name, source.location(call), is_method


def _passes(source: Source) -> list[tuple[ast.FunctionDef | ast.For, bool]]:
    """The methods that are part of a pass of a network, and the loops with a backward pass."""
    methods = [(method, True) for cls in module_classes(source) for method in _methods_of_pass(cls)]
    loops = [loop for loop in source.nodes_of(ast.For) if source.once(_trains, loop)]
    calls = [
        (method, True)
        for cls in source.nodes_of(ast.ClassDef)
        if {last_name(base) for base in cls.bases} & {"Model", "Layer"}
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name == "call"
    ]
    return [*methods, *calls, *((loop, False) for loop in loops)]


def _learning(pipeline: Pipeline) -> Iterator[tuple[str, Location]]:
    for call, node in own_calls(pipeline, "torch.nn."):
        name = call.path.rpartition(".")[2]
        first = node.args[0] if node.args else None
        is_random = isinstance(first, ast.Call) and last_name(first.func) in RANDOM
        if name in LEARNS and (is_random or name != "Parameter"):
            yield name, call.location
    for call, _ in own_calls(pipeline, "keras.layers."):
        name = call.path.rpartition(".")[2]
        if name in OF_KERAS:
            yield name, call.location


def _methods_of_pass(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    """`forward` of a network, and the methods that only it leads to."""
    methods = {each.name: each for each in cls.body if isinstance(each, ast.FunctionDef)}
    others = {name for name in methods if name.startswith(("__", "build", "init", "_init", "_build", "make", "_make"))}
    passes: list[str] = [name for name in ("forward", "training_step") if name in methods]
    # In a piece of a class without its pass, what gets an input is a part of that pass.
    passes = passes or [name for name, method in methods.items() if len(method.args.args) > 1 and name not in others]
    of_pass = _reached_from(passes, methods, others)
    return [method for name, method in of_pass.items() if name not in _reached_from(["__init__"], methods, others)]


def _reached_from(
    starts: Iterable[str], methods: Mapping[str, ast.FunctionDef], others: Set[str]
) -> Mapping[str, ast.FunctionDef]:
    """The methods that some lead to, those included."""
    reached, pending = dict[str, ast.FunctionDef](), list(starts)
    while pending:
        name = pending.pop()
        if name in methods and name not in reached and (name not in others or name in starts):
            reached[name] = methods[name]
            pending.extend(_own_methods_in(methods[name]))
    return reached


def _own_methods_in(method: ast.FunctionDef) -> Iterator[str]:
    for node in walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _trains(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in walk(loop))


def _is_dropped_after_use(scope: ast.AST, around: ast.AST, call: ast.Call, name: str) -> bool:
    """Whether a new layer is only called: at once, or through a name that nothing else reads."""
    users = {id(node.func): node for node in walk(scope) if isinstance(node, ast.Call)}
    owners = {id(node.value): node for node in walk(scope) if isinstance(node, ast.Attribute) and node.attr in MOVES}
    made: ast.expr = call
    while id(made) in owners and id(owners[id(made)]) in users:
        made = users[id(owners[id(made)])]
    if id(made) in users:
        return name != "Parameter"
    for node in walk(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if value is made:
                return _is_only_used(around, bound, as_layer=name != "Parameter")
            case _:
                pass
    return False


def _is_only_used(around: ast.AST, name: str, *, as_layer: bool) -> bool:
    """Whether a name is bound once and read at least once: as a layer that is called, or in computations."""
    nodes = list(walk(around))
    named = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    reads = [node for node in named if isinstance(node.ctx, ast.Load)]
    if len(named) != len(reads) + 1 or not reads:
        return False
    if as_layer:
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        return all(id(read) in called for read in reads)
    kept = {id(node.value) for node in nodes if isinstance(node, ast.Assign | ast.Return | ast.Attribute | ast.keyword)}
    kept |= {id(each) for node in nodes if isinstance(node, ast.Tuple | ast.List | ast.Dict) for each in walk(node)}
    kept |= {id(e) for node in nodes if isinstance(node, ast.Call) and _hands_on(node) for e in node.args}
    return not any(id(read) in kept for read in reads)


def _hands_on(call: ast.Call) -> bool:
    return HANDS_ON.search(last_name(call.func)) is not None
