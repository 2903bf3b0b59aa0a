"""Gradient scalers of mixed precision that a file makes or gets, and that scale no loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LIBRARIES = frozenset({"accelerate", "lightning", "pytorch_lightning", "lightning_fabric", "deepspeed", "apex"})
ELSEWHERE = lazy_pattern(r"\.unscale_\(|\b_?accelerator\.|\b[Ff]abric[.(]|scale_loss")
"""Code that scales, or leaves that to a library."""

NEEDS_NONE = lazy_pattern(r"bfloat16|bf16")
IS_HALF = lazy_pattern(r"(?<!b)(?:float16|fp16)")
"""A format that needs no scaler, and the one that needs it."""

SCALER = lazy_pattern(r"^(?:grad_)?scaler$")
OF_COLUMNS = lazy_pattern(r"\b(?!GradScaler\b|ShardedGradScaler\b)\w+Scaler\b")
"""Other scalers: where one is named, a parameter that is called `scaler` may be any of them."""

HALVES = frozenset({"float16", "half"})
KEEPS = frozenset({"state_dict", "load_state_dict", "step", "update", "get_scale"})
"""Methods of a scaler that scale no loss."""


@dataclass(frozen=True, slots=True)
class Unscaled:
    """A backward pass of a function that casts: where, the code of the unused scaler, and where that comes from."""

    location: Location
    scaler: str
    origin: Location


def unscaled(source: Source) -> Iterator[Unscaled]:
    """The first backward pass of each function that casts, next to a scaler that nothing in the file uses."""
    if not source.contains(r"autocast") or not source.contains(r"(?i)scaler") or source.contains(ELSEWHERE):
        return
    if not LIBRARIES.isdisjoint(imported_packages(source)) or (
        source.contains(NEEDS_NONE) and not source.contains(IS_HALF)
    ):
        return
    made = {
        unparse(node.targets[0]): made for node in source.nodes_of(ast.Assign) if (made := _scaler_made(node.value))
    }
    functions = {node.name for node in source.nodes_of(ast.FunctionDef) if not _calls_scale(own_nodes(node))}
    unused = {name: call for name, call in made.items() if not _scales(list(source.nodes), name, functions)}
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        casts = [node for node in nodes if isinstance(node, ast.With) and _casts(node, is_open=bool(unused))]
        first = min((node.lineno for node in casts), default=None)
        calls = (node for node in nodes if isinstance(node, ast.Call) and _is_backward(node))
        # A loss of the lines before was computed without the cast.
        backward = next((node for node in calls if first is not None and node.lineno > first), None)
        if backward is None or _calls_scale(nodes):
            continue
        given = _given(source, scope)
        if given is None and unused:
            name, call = next(iter(unused.items()))
            yield Unscaled(source.location(backward), name, source.location(call))
        # What the file makes under the same name is this scaler, which another function may use.
        is_used = given is not None and (
            given.arg in made.keys() - unused.keys() or _scales(nodes, given.arg, functions)
        )
        if given is not None and not is_used:
            yield Unscaled(source.location(backward), given.arg, source.location(given))


def _scaler_made(value: ast.expr) -> ast.Call | None:
    """The call that makes a scaler, perhaps on one condition: `GradScaler() if mixed else None`."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            return _scaler_made(body) or _scaler_made(orelse)
        case ast.Call(func=called) if last_name(called) == "GradScaler" and not _is_off(value):
            return value
        case _:
            return None


def _given(source: Source, scope: ast.AST) -> ast.arg | None:
    """The parameter of a function by which it gets a scaler."""
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    given = next((each for each in arguments if SCALER.search(each.arg)), None)
    if given is None or source.contains(OF_COLUMNS):
        return None
    return given if given.annotation is None or "GradScaler" in unparse(given.annotation) else None


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args


def _casts(node: ast.With, *, is_open: bool) -> bool:
    """Whether a block computes in float16, as far as its code says: what a variable names may be another format.

    A scaler that is made and not used (`is_open`) is meant for a variable format, too.
    """
    casts = (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))
    of_torch = [cast for cast in casts if last_name(cast.func) == "autocast" and not _is_off(cast)]
    return any(_is_half(cast, is_open=is_open) for cast in of_torch)


def _is_off(call: ast.Call) -> bool:
    """Whether a scaler or a cast is switched off where it is made."""
    return any(each.arg == "enabled" and unparse(each.value) == "False" for each in call.keywords)


def _calls_scale(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(node, ast.Call) and last_name(node.func) == "scale" for node in nodes)


def _is_half(cast: ast.Call, *, is_open: bool) -> bool:
    match cast.args[:1]:
        case [ast.Constant(value="cpu")]:
            return False
        case _:
            formats = [each.value for each in cast.keywords if each.arg == "dtype"] + cast.args[1:2]
            return all(last_name(each) in HALVES or (is_open and not _is_of_torch(each)) for each in formats)


def _is_of_torch(node: ast.expr) -> bool:
    return unparse(node).startswith("torch.")


def _scales(nodes: Sequence[ast.AST], name: str, functions: set[str]) -> bool:
    """Whether something may use a scaler, other than to keep its state or to hand it to a function of the file."""
    plain = set[int]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in KEEPS:
                plain.add(id(owner))
            case ast.Call(func=called) if last_name(called) in functions:
                plain |= {id(each) for each in node.args} | {id(each.value) for each in node.keywords}
            case ast.Compare(left=left, comparators=[ast.Constant(value=None)]):
                plain.add(id(left))
            case ast.If(test=test) | ast.IfExp(test=test):
                plain |= {id(test)} | ({id(each) for each in test.values} if isinstance(test, ast.BoolOp) else set())
            case _:
                pass
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in plain
        and unparse(node) == name
        for node in nodes
    )
