"""Networks that a script makes and never moves, though it moves the batches that it gives them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.device_moves import (
    MOVED,
    MOVES,
    MOVES_BATCHES,
    ONLY_READS,
    SHAPES,
    assigned_move,
    goes_to_device,
)
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OPTIMIZERS = frozenset({"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax"})
ELSEWHERE = (
    rf"{MOVES_BATCHES}|DataParallel|device_map|set_device|to_device|"
    r"\.apply\((?:lambda[^\n]*\.(?:to|cuda)\(|\w*(?:cuda|gpu|device))"
)
MOVES_ITSELF = lazy_pattern(r"\bself\.(?:to|cuda)\(|\bself\.\w+ = [^\n]*\.(?:to|cuda)\(|\bself\.device ?=|device_map")
"""Code of a class or function after which its network may be on a GPU."""

READS = lazy_pattern(rf"^(?:print|len|str|repr|type|isinstance)$|(?:^|\.)save$|{ONLY_READS.pattern}")
"""Functions that leave a network where it is."""

DEEPEST = 2
"""Calls from one function of the file to the next that are followed."""


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
    functions = _functions(pipeline)
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for name in source.once(_trained_in, scope):
            made = _only_made(nodes, name)
            if made is None or _moves(scope, name) or not _stays(pipeline, made) or _leaves(nodes, name, functions):
                continue
            use = _use(source, nodes, name) or _use_by_function(source, nodes, name, functions)
            if use is not None:
                yield LeftNetwork(source.location(use), name, source.location(made))


def _functions(pipeline: Pipeline) -> dict[str, ast.FunctionDef]:
    """The functions of the script, and those of its modules whose name no other one has."""
    own = {node.name: node for node in pipeline.source.nodes_of(ast.FunctionDef)}
    sources = [each for each in pipeline.sources.values() if each is not pipeline.source]
    others = [node for each in sources for node in each.nodes_of(ast.FunctionDef)]
    counts = Counter(node.name for node in others)
    return {node.name: node for node in others if counts[node.name] == 1} | own


def _moves(scope: ast.AST, name: str) -> bool:
    """Whether code in a scope, or in the functions inside of it, moves what a name holds."""
    moves = (node for node in walk(scope) if isinstance(node, ast.Attribute) and node.attr in MOVES)
    return any(isinstance(each.value, ast.Name) and each.value.id == name for each in moves)


def _trained_in(scope: ast.AST) -> list[str]:
    nodes = own_nodes(scope)
    lists = dict(filter(None, map(_listed, nodes)))
    return sorted({name for node in nodes if (name := _trained_by(node) or _trained_as_list(node, lists))})


def _listed(node: ast.AST) -> tuple[str, str] | None:
    """The name of a list of a network's parameters, and of the network: `[p for p in net.parameters() if …]`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=listed)],
            value=ast.ListComp(
                generators=[
                    ast.comprehension(iter=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters")))
                ]
            ),
        ):
            return listed, name
        case ast.Assign(
            targets=[ast.Name(id=listed)],
            value=ast.Call(
                func=ast.Name(id="filter" | "list"),
                args=[*_, ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters"))],
            ),
        ):
            return listed, name
        case _:
            return None


def _trained_as_list(node: ast.AST, lists: Mapping[str, str]) -> str:
    """The name of the network whose parameters an optimizer gets as a list."""
    match node:
        case ast.Call(func=made, args=[ast.Name(id=listed), *_]) if last_name(made) in OPTIMIZERS:
            return lists.get(listed, "")
        case _:
            return ""


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
    found = _named(pipeline, name)
    if len(found) != 1 or MOVES_ITSELF.search(unparse(found[0])):
        return False
    if isinstance(found[0], ast.FunctionDef):
        return not MOVED.search(unparse(found[0]))
    bases = [each for base in found[0].bases for each in _named(pipeline, last_name(base))]
    return not any(MOVES_ITSELF.search(unparse(each)) for each in bases)


def _named(pipeline: Pipeline, name: str) -> list[ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of the script and its modules that have a name."""
    found = (node for source in pipeline.sources.values() for node in source.nodes_of(ast.ClassDef, ast.FunctionDef))
    return [node for node in found if node.name == name]


def _leaves(nodes: Sequence[ast.AST], name: str, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> bool:
    """Whether code may move a network: it gets the network, and is no function of the file that leaves it alone."""
    stays = set[int]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=called) as func) if called == name:
                stays.add(id(func))
            case ast.Attribute(value=owner, attr=attr) if attr not in MOVES:
                stays.add(id(owner))
            case ast.Return(value=ast.Tuple(elts=given)):
                stays |= {id(each) for each in given}
            case ast.Return(value=given):
                stays.add(id(given))
            case ast.Call(func=func, args=given) if READS.search(unparse(func)):
                stays |= {id(each) for each in given}
            case ast.Call() if depth < DEEPEST and (function := functions.get(last_name(node.func))) is not None:
                for parameter, value in _given(function, node).items():
                    if not _leaves(own_nodes(function), parameter, functions, depth + 1):
                        stays.add(id(value))
            case _:
                pass
    uses = (node for node in nodes if isinstance(node, ast.Name) and node.id == name)
    return any(isinstance(node.ctx, ast.Load) and id(node) not in stays for node in uses)


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What the parameters of a function are given by a call."""
    names = [each.arg for each in function.args.args]
    # The first parameter of a method gets what it is called on.
    is_method = names[:1] == ["self"] and isinstance(call.func, ast.Attribute)
    given = dict(zip(names[1:] if is_method else names, call.args, strict=False))
    return given | {each.arg: each.value for each in call.keywords if each.arg}


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
            case ast.Call(func=ast.Name(id=called), args=[first, *_]) if called == name and _is_moved(
                source, first, moved
            ):
                return node
            case ast.Call(func=ast.Name(id=called), keywords=[ast.keyword(arg=None, value=ast.Name(id=whole))]):
                if called == name and whole in moved:
                    return node
            case _:
                pass
    return None


JOINS = frozenset({"cat", "stack", "concat", "concatenate"})


def _is_moved(source: Source, given: ast.expr, moved: set[str]) -> bool:
    """Whether code is a moved name, one in another shape or joined with others, or moves something itself."""
    match given:
        case ast.Name() | ast.Subscript(value=ast.Name()):
            return unparse(given) in moved
        case ast.Call(func=ast.Attribute(attr=method)) if method in MOVES:
            return goes_to_device(source, given)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in SHAPES:
            return _is_moved(source, owner, moved)
        case ast.Call(func=called, args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]) if (
            last_name(called) in JOINS
        ):
            return any(_is_moved(source, part, moved) for part in parts)
        case _:
            return False


def _stored(node: ast.Assign) -> list[str]:
    """The names, and items of names, that an assignment gives something."""
    parts = [part for target in node.targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [unparse(part) for part in parts if isinstance(part, ast.Name | ast.Subscript)]


def _use_by_function(
    source: Source, nodes: Sequence[ast.AST], name: str, functions: Mapping[str, ast.FunctionDef]
) -> ast.Call | None:
    """The same in a function of the file that gets the network."""
    for node in nodes:
        function = functions.get(last_name(node.func)) if isinstance(node, ast.Call) else None
        if function is None or not isinstance(node, ast.Call):
            continue
        for parameter, value in _given(function, node).items():
            if isinstance(value, ast.Name) and value.id == name:
                use = _use(source, own_nodes(function), parameter)
                if use is not None:
                    return use
    return None
