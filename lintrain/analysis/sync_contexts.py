"""Backward passes inside `no_sync`, which leaves the gradients of each process as they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

COLLECTIVES = frozenset({"all_reduce", "all_reduce_coalesced", "reduce_scatter", "broadcast", "reduce", "all_gather"})
OF_WEIGHTS = lazy_pattern(r"\.grad\b|parameters\(|\.data\b|state_dict|averag")
"""Code of a function that averages gradients or weights itself."""


@dataclass(frozen=True, slots=True)
class Unsynchronized:
    """A `no_sync` with a backward pass inside: the call, its code, and the pass."""

    location: Location
    code: str
    backward: Location


def never_synchronized(source: Source) -> Iterator[Unsynchronized]:
    """The `no_sync` contexts of a file, if no backward pass of it is outside of them and nothing else averages."""
    if "no_sync(" not in source.text or "deepspeed" in source.text:
        return
    passes = [each for each in source.nodes_of(ast.Call) if last_name(each.func) in {"backward", "manual_backward"}]
    contexts = [(node, call) for node in source.nodes_of(ast.With) if (call := _no_sync_of(node)) is not None]
    inside = [(call, [each for each in passes if _holds(node, each)]) for node, call in contexts]
    covered = {id(each) for _, held in inside for each in held}
    if not passes or any(id(each) not in covered for each in passes) or _averages(source):
        return
    for call, held in inside:
        if held:
            yield Unsynchronized(source.location(call), unparse(call), source.location(held[0]))


def _no_sync_of(node: ast.With) -> ast.Call | None:
    """The call of `no_sync` that a `with` always enters: `model.no_sync()`, `accelerator.no_sync(model)`."""
    entered = [item.context_expr for item in node.items]
    calls: Sequence[ast.Call] = [each for each in entered if isinstance(each, ast.Call)]
    return next((each for each in calls if last_name(each.func) == "no_sync"), None)


def _holds(node: ast.With, call: ast.Call) -> bool:
    return node.lineno <= call.lineno <= (node.end_lineno or node.lineno)


def _averages(source: Source) -> bool:
    """Whether a function of the file, or the code outside of functions, exchanges gradients or weights itself."""
    calls = [each for each in source.nodes_of(ast.Call) if last_name(each.func) in COLLECTIVES]
    functions = source.nodes_of(ast.FunctionDef)
    for call in calls:
        around = [each for each in functions if each.lineno <= call.lineno <= (each.end_lineno or 0)]
        scope = min(around, key=lambda each: (each.end_lineno or 0) - each.lineno) if around else source.tree
        nearby = (each for each in walk(scope) if isinstance(each, ast.Attribute | ast.Name))
        if OF_WEIGHTS.search(unparse(call)) or any(OF_WEIGHTS.search(f"{unparse(each)}(") for each in nearby):
            return True
    return False
