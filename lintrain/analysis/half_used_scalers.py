"""Gradient scalers of which a file uses one half: they scale and nothing steps by them, or step and are not updated."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OPTIMIZER = lazy_pattern(r"(?i)(?:^|_)opt(?:im\w*|_\w+)?$")
READS = lazy_pattern(r"(?i)^(?:print|isinstance|len|bool|str|type)$|log|save")
"""Functions that leave a scaler as it is."""


@dataclass(frozen=True, slots=True)
class HalfUsed:
    """A step that does not fit its scaler: where, the code of the scaler, and where it scales the loss.

    `scales` if the step is the optimizer's own; otherwise the scaler steps, and is never updated.
    """

    location: Location
    scaler: str
    scaled: Location
    scales: bool


def half_used(source: Source) -> Iterator[HalfUsed]:
    """The steps after a scaled backward pass of a scaler that nothing in the file steps by, or updates."""
    passes = (
        [call for call in calls_of(source, {"backward"}) if _scaler_of(call)] if calls_of(source, {"scale"}) else []
    )
    for name in sorted({last_name(_owner(call)) for call in passes}):
        used = {last_name(call.func) for call in source.nodes_of(ast.Call) if _is_method_of(call, name)}
        # Unscaled gradients may be stepped on without the scaler.
        is_whole = "update" in used if "step" in used else "unscale_" in used
        if is_whole or _is_off(source) or _escapes(source, name):
            continue
        for call in passes:
            if last_name(_owner(call)) == name:
                yield from _steps_after(source, call, name, scales="step" not in used)


def _scaler_of(backward: ast.Call) -> ast.expr | None:
    """What scales the loss of `scaler.scale(loss).backward()`; None for another backward pass."""
    match backward.func:
        case ast.Attribute(
            value=ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr="scale"))
        ):
            return owner
        case _:
            return None


def _owner(backward: ast.Call) -> ast.expr:
    owner = _scaler_of(backward)
    assert owner is not None
    return owner


def _is_method_of(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name


def _is_off(source: Source) -> bool:
    """Whether a file makes a scaler that is switched off."""
    made = calls_of(source, {"GradScaler"})
    return any(each.arg == "enabled" and unparse(each.value) == "False" for call in made for each in call.keywords)


def _escapes(source: Source, name: str) -> bool:
    """Whether other code may get a scaler: a call of something that the file does not define, or a second name."""
    functions = {node.name for node in source.nodes_of(ast.FunctionDef)}
    for node in source.nodes_of(ast.Call, ast.Assign):
        match node:
            case ast.Call(func=called, args=args, keywords=keywords):
                is_known = last_name(called) in functions or READS.search(last_name(called)) is not None
                given = [] if is_known else [*args, *(each.value for each in keywords)]
            case ast.Assign(targets=[target, *_], value=value):
                given = [] if last_name(target) == name else [value]
            case _:
                continue
        parts = [part for each in given for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]
        if any(last_name(part) == name for part in parts):
            return True
    return False


def _steps_after(source: Source, backward: ast.Call, name: str, *, scales: bool) -> Iterator[HalfUsed]:
    """The first step of the same function after a scaled backward pass: the optimizer's own, or the scaler's."""
    scope = _scope(source, backward)
    calls = sorted((node for node in own_nodes(scope) if isinstance(node, ast.Call)), key=lambda node: node.lineno)
    steps = [call for call in calls if last_name(call.func) == "step" and call.lineno > backward.lineno]
    fits = _is_own_step if scales else _is_method_of
    found = next((step for step in steps if fits(step, name)), None)
    if found is not None and (scope is not source.tree or _is_repeated(own_nodes(scope), found)):
        yield HalfUsed(source.location(found), unparse(_owner(backward)), source.location(backward), scales)


def _is_own_step(call: ast.Call, _: str) -> bool:
    is_plain = isinstance(call.func, ast.Attribute) and not call.args and not call.keywords
    return is_plain and isinstance(call.func, ast.Attribute) and bool(OPTIMIZER.search(last_name(call.func.value)))


def _is_repeated(nodes: Sequence[ast.AST], call: ast.Call) -> bool:
    """Whether a loop is around a call that is outside of functions."""
    return any(isinstance(node, ast.For | ast.While) and call in walk(node) for node in nodes)


def _scope(source: Source, call: ast.Call) -> ast.AST:
    return next((each for each in source.nodes_of(ast.FunctionDef) if call in own_nodes(each)), source.tree)
