"""Gradient scalers of mixed precision that a file makes or gets, and that scale no loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ELSEWHERE = lazy_pattern(
    r"\.scale\(|\.unscale_\(|bfloat16|bf16|accelerat|lightning|fabric|deepspeed|\bapex\b|scale_loss|enabled=False"
)
"""Code that scales, computes in a format that needs no scaler, or leaves both to a library."""

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
    made = {
        unparse(node.targets[0]): node
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == "GradScaler"
    }
    functions = {node.name for node in source.nodes_of(ast.FunctionDef)}
    unused = {name: node for name, node in made.items() if not _scales(list(source.nodes), name, functions)}
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        cast = next((node.lineno for node in nodes if isinstance(node, ast.With) and _casts(node)), None)
        calls = (node for node in nodes if isinstance(node, ast.Call) and _is_backward(node))
        # A loss of the lines before was computed without the cast.
        backward = next((node for node in calls if cast is not None and node.lineno > cast), None)
        if backward is None:
            continue
        given = _given(source, scope)
        if given is not None and given.arg not in made and not _scales(nodes, given.arg, functions):
            yield Unscaled(source.location(backward), given.arg, source.location(given))
        elif given is None and unused:
            name, node = next(iter(unused.items()))
            yield Unscaled(source.location(backward), name, source.location(node.value))


def _given(source: Source, scope: ast.AST) -> ast.arg | None:
    """The parameter of a function by which it gets a scaler."""
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    given = next((each for each in arguments if SCALER.search(each.arg)), None)
    if given is None or source.contains(OF_COLUMNS):
        return None
    return given if given.annotation is None or "GradScaler" in unparse(given.annotation) else None


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args


def _casts(node: ast.With) -> bool:
    """Whether a block computes in float16, as far as its code says: what a variable names may be another format."""
    casts = (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))
    return any(last_name(cast.func) == "autocast" and _is_half(cast) for cast in casts)


def _is_half(cast: ast.Call) -> bool:
    match cast.args[:1]:
        case [ast.Constant(value="cpu")]:
            return False
        case _:
            formats = [each.value for each in cast.keywords if each.arg == "dtype"] + cast.args[1:2]
            return all(last_name(each) in HALVES for each in formats)


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
            case _:
                pass
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in plain
        and unparse(node) == name
        for node in nodes
    )
