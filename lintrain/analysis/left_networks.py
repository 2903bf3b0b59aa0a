"""Networks that a script makes and never moves, though it moves the batches that it gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.device_moves import MOVED, MOVES, MOVES_BATCHES, assigned_move, goes_to_device
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OPTIMIZERS = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax"})
NETWORKS = lazy_pattern(
    r"(?i)(?:^|[._])(?:\w*(?:model|net|network|module|coder|former|backbone|head|classifier|actor|critic|policy)\d?|"
    r"self|m|net\w|generator|discriminator|gpt|bert|gan|vae|agent)$"
)
"""Names of what may be a network, or hold one."""

ELSEWHERE = rf"{MOVES_BATCHES}|DataParallel|device_map|set_device|\.apply\(|to_device"
MOVES_ITSELF = lazy_pattern(r"\bself\.(?:to|cuda)\(|\bself\.\w+ = [^\n]*\.(?:to|cuda)\(|\bself\.device ?=|device_map")
"""Code of a class or function after which its network may be on a GPU."""


@dataclass(frozen=True, slots=True)
class LeftNetwork:
    """A call of a network with a moved batch: where, its name, and where it is made."""

    location: Location
    name: str
    made: Location


def left_networks(pipeline: Pipeline) -> Iterator[LeftNetwork]:
    """The networks of a file that an optimizer trains where they were made, on the CPU."""
    source = pipeline.source
    trains = source.contains(r"\.backward\(") and source.contains(r"\.parameters\(\)")
    if not trains or not source.contains(MOVED) or source.contains(ELSEWHERE):
        return
    if any(_moves_network(call) for call in source.nodes_of(ast.Call)):
        return
    functions = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
    for scope in (source.tree, *functions.values()):
        nodes = own_nodes(scope)
        trained = {name for node in nodes if (name := _trained_by(node))}
        for name in sorted(trained):
            made = _only_made(nodes, name)
            if made is None or not _stays(pipeline, made):
                continue
            use = _use(source, nodes, name) or _use_by_function(source, nodes, name, functions)
            if use is not None:
                yield LeftNetwork(source.location(use), name, source.location(made))


def _moves_network(call: ast.Call) -> bool:
    """Whether a call moves something that may be a network."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in MOVES:
        return False
    owner = call.func.value
    if isinstance(owner, ast.Call | ast.Subscript):
        return not _is_of_tensor(owner)
    return NETWORKS.search(unparse(owner)) is not None


def _is_of_tensor(owner: ast.expr) -> bool:
    """Whether what is moved is an item of a batch, or what a function of torch or a method of a tensor gives."""
    match owner:
        case ast.Subscript(slice=ast.Constant()):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name[:1].islower() and NETWORKS.search(unparse(inner)) is None
        case _:
            return False


def _trained_by(node: ast.AST) -> str:
    """The name of the network whose parameters an optimizer gets."""
    match node:
        case ast.Call(func=made, args=[ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters")), *_]):
            return name if last_name(made) in OPTIMIZERS else ""
        case _:
            return ""


def _only_made(nodes: Sequence[ast.AST], name: str) -> ast.Call | None:
    """The call that makes a network, if its name is given nothing else."""
    given = [
        node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    made = [node.value for node in nodes if isinstance(node, ast.Assign) and unparse(node.targets[0]) == name]
    return made[0] if len(given) == len(made) == 1 and isinstance(made[0], ast.Call) else None


def _stays(pipeline: Pipeline, made: ast.Call) -> bool:
    """Whether the class or function that makes a network was read, and moves nothing itself."""
    name = last_name(made.func)
    if "device" in unparse(made) or "cuda" in unparse(made):
        return False
    found = [
        node
        for source in pipeline.sources.values()
        for node in source.nodes_of(ast.ClassDef, ast.FunctionDef)
        if node.name == name
    ]
    if len(found) != 1 or MOVES_ITSELF.search(unparse(found[0])):
        return False
    return isinstance(found[0], ast.ClassDef) or not MOVED.search(unparse(found[0]))


def _use(source: Source, nodes: Sequence[ast.AST], name: str) -> ast.Call | None:
    """The call that gives a network something that was moved to a GPU."""
    moved = set[str]()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in _stored(node):
                move = assigned_move(node, target)
                if move is not None and goes_to_device(source, move):
                    moved.add(target)
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=called), args=[first, *_]) if called == name:
                if isinstance(first, ast.Name) and first.id in moved:
                    return node
                if isinstance(first, ast.Call) and last_name(first.func) in MOVES and goes_to_device(source, first):
                    return node
            case ast.Call(func=ast.Name(id=called), keywords=[ast.keyword(arg=None, value=ast.Name(id=whole))]):
                if called == name and whole in moved:
                    return node
            case _:
                pass
    return None


def _stored(node: ast.Assign) -> list[str]:
    """The names that an assignment gives something."""
    parts = [part for target in node.targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _use_by_function(
    source: Source, nodes: Sequence[ast.AST], name: str, functions: Mapping[str, ast.FunctionDef]
) -> ast.Call | None:
    """The same in a function of the file that gets the network."""
    for node in nodes:
        function = functions.get(last_name(node.func)) if isinstance(node, ast.Call) else None
        if function is None or not isinstance(node, ast.Call):
            continue
        given = dict(zip((each.arg for each in function.args.args), node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg}
        for parameter, value in given.items():
            if isinstance(value, ast.Name) and value.id == name:
                use = _use(source, own_nodes(function), parameter)
                if use is not None:
                    return use
    return None
