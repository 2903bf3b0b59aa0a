"""Weights that code keeps for later without a copy: they change with the model that trains on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

OTHER_STATES = re.compile(r"opt|sched|scaler|sampler|loader", re.IGNORECASE)
"""Owners whose state is not the weights of a model."""

TRAINS = re.compile(r"backward\(|\.step\(|train\w*\(|\bfit\w*\(", re.IGNORECASE)
BEST = re.compile(r"best", re.IGNORECASE)

Loop = ast.For | ast.While


@dataclass(frozen=True, slots=True)
class Alias:
    """A model's weights, or the model, under another name: where, the code, and where they are used later."""

    location: Location
    code: str
    name: str
    used: Location
    is_model: bool


def aliased(pipeline: Pipeline) -> Iterator[Alias]:
    """What is kept of a model while it trains on, and is used afterwards as if it were what it was then."""
    source = pipeline.source
    for node in source.nodes_of(ast.Assign):
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name, owner = node.targets[0].id, _owner_of_weights(node.value)
        if not owner and not (isinstance(node.value, ast.Name) and BEST.search(name)):
            continue
        scope = blocks.scope_of(pipeline, source.location(node))
        used = _loaded_again(source, scope, node, name, owner) if owner else _used_as_best(source, scope, node, name)
        if used is not None:
            location = source.location(node.value)
            yield Alias(location, source.code(location), name, source.location(used), not owner)


def _owner_of_weights(node: ast.expr) -> str:
    """The code of `model` in `model.state_dict()`, `copy.copy(model.state_dict())` or `model.state_dict().copy()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="copy"), args=[inner]) | ast.Call(func=ast.Name(id="dict"), args=[inner]):
            return _owner_of_weights(inner)
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="copy"), args=[], keywords=[]):
            return _owner_of_weights(inner)
        case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[], keywords=[]):
            code = ast.unparse(owner)
            return "" if OTHER_STATES.search(code) else code.removesuffix(".module")
        case _:
            return ""


def _loaded_again(source: Source, scope: ast.AST, node: ast.Assign, name: str, owner: str) -> ast.expr | None:
    """The call that loads the weights into the same model after it trained, if nothing else is done with them."""
    loads: list[ast.Call] = []
    known: set[ast.expr] = set()
    for each in ast.walk(scope):
        match each:
            case ast.Call(func=ast.Attribute(value=loaded, attr="load_state_dict"), args=[ast.Name(id=given), *_]) if (
                given == name
            ):
                known.add(each.args[0])
                if ast.unparse(loaded).removesuffix(".module") == owner:
                    loads.append(each)
            case ast.Call(func=ast.Attribute(attr="save"), args=[ast.Name(id=given), *_]) if given == name:
                known.add(each.args[0])
            case ast.Compare(left=ast.Name(id=given), comparators=[ast.Constant(value=None)]) if given == name:
                known.add(each.left)
            case _:
                pass
    reads = {each for each in ast.walk(scope) if _reads(each, name)}
    if reads - known or _is_bound_again(scope, owner):
        return None
    return next((load for load in loads if _trains_between(source, scope, node, load)), None)


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _is_bound_again(scope: ast.AST, owner: str) -> bool:
    """Whether a scope gives the model's name to several models, of which one may be the one that was kept."""
    bound = [
        each
        for each in ast.walk(scope)
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each) == owner
    ]
    return len(bound) > 1


def _trains_between(source: Source, scope: ast.AST, node: ast.Assign, load: ast.expr) -> bool:
    """Whether the model trains after its weights were kept and before they are loaded."""
    loop = _loop_around(scope, node, TRAINS)
    if loop is not None:
        return True
    if load.lineno <= node.lineno:
        return False
    lines = source.lines[(node.end_lineno or node.lineno) : load.lineno - 1]
    return TRAINS.search("\n".join(lines)) is not None


def _loop_around(scope: ast.AST, node: ast.stmt, trains: re.Pattern[str]) -> Loop | None:
    """The innermost loop of a scope around a statement, if it trains."""
    loops = [
        each for each in ast.walk(scope) if isinstance(each, Loop) and any(part is node for part in ast.walk(each))
    ]
    loop = min(loops, key=lambda each: (each.end_lineno or 0) - each.lineno, default=None)
    return loop if loop is not None and trains.search(ast.unparse(loop)) else None


def _used_as_best(source: Source, scope: ast.AST, node: ast.Assign, name: str) -> ast.expr | None:
    """Where `best_model` of `best_model = model` is read after the loop around it, in which the model trains."""
    if not isinstance(node.value, ast.Name) or BEST.search(node.value.id):
        return None
    model, loop = node.value.id, _loop_around(scope, node, TRAINS)
    is_model = re.search(rf"(?<![\w.]){re.escape(model)}\.(?:train|eval|parameters|state_dict)\(", source.text)
    if loop is None or is_model is None or _binds(loop, model):
        return None
    tests = [each for each in ast.walk(loop) if isinstance(each, ast.If) and node in ast.walk(each)]
    if not tests or any(isinstance(each, ast.Break | ast.Return) for test in tests for each in ast.walk(test)):
        return None
    end = loop.end_lineno or loop.lineno
    return next((each for each in _names(scope) if _reads(each, name) and each.lineno > end), None)


def _names(scope: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(scope) if isinstance(each, ast.Name))


def _binds(loop: Loop, name: str) -> bool:
    """Whether each iteration may have another model: the loop binds its name."""
    return any(each.id == name and isinstance(each.ctx, ast.Store) for each in _names(loop))
