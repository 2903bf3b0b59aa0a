"""Whether code may give a network other weights after it was made: a load, or an initialization that it runs later.

What the class of a network does to its own weights happens when it is made, also through functions that only such
classes use, so they are as random as before. A load that a condition asks for, as for a run that goes on, is not what
the script does by itself, and one of an optimizer's state concerns no weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import children, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

REWRITES = (
    r"load_state_dict|model_init|load_weights|load_model|init_weights|initiali[sz]e|reset_parameters|\binit\.|\.apply\(|"
    r"\.(?:normal|uniform|zero|fill|copy|trunc_normal)_\("
)
"""Code that overwrites the initial values of weights."""

CALLEES = lazy_pattern(
    r"load_state_dict|model_init|load_weights|load_model|init_weights|initiali[sz]e|reset_parameters|\binit\.|\.apply$|"
    r"\.(?:normal|uniform|zero|fill|copy|trunc_normal)_$"
)
LOADS = lazy_pattern(r"load|resume|restore|checkpoint")
OF_OTHERS = lazy_pattern(r"(?i)opt|sched|scaler|cache|logger|profiler")
"""Names of what has a state, or is initialized, and is no network."""

CONSTANT = frozenset({"zeros_", "ones_", "constant_", "eye_", "dirac_", "zero_", "fill_", "copy_"})
RANDOM = lazy_pattern(r"(?:normal|uniform|xavier|kaiming|orthogonal|sparse)\w*_?$")


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A call that may overwrite weights, with the function around it, empty at the margin."""

    location: Location
    function: str
    asked: bool
    """Whether it is a load under a condition."""


@dataclass(frozen=True, slots=True)
class Rewritings:
    """Those of one file outside of networks, and whether a network fills its weights with constants."""

    calls: tuple[Rewriting, ...]
    is_constant: bool


def may_be_rewritten(pipeline: Pipeline, after: Location) -> bool:
    """Whether weights that were made before a location may be overwritten after it, or are the same in each run."""
    sources = [source for source in pipeline.sources.values() if source.contains(REWRITES)]
    if not sources:
        return False
    found = [source.cached(_rewritings) for source in sources]
    if any(each.is_constant for each in found):
        return True
    used = frozenset[str]().union(*(source.cached(_used) for source in pipeline.sources.values()))
    for each in (call for one in found for call in one.calls if not call.asked):
        is_run = not each.function or each.function in used
        is_earlier = blocks.is_one_scope(pipeline, each.location, after) and each.location < after
        if is_run and not is_earlier and not _is_after_training(pipeline, each.location):
            return True
    return False


def _is_after_training(pipeline: Pipeline, location: Location) -> bool:
    """Whether code is below the loops in which optimizers step, in one scope with them."""
    loops = [event.loops[0].location for event in pipeline.events if event.loops and event.act.name == "STEP"]
    return bool(loops) and all(
        blocks.is_one_scope(pipeline, loop, location) and loop < location and not loop.holds(location) for loop in loops
    )


def _rewritings(source: Source) -> Rewritings:
    networks = _networks(source)
    inside = {id(node) for network in networks for node in walk(network)}
    calls = tuple(
        _rewriting(source, call, function, is_conditional)
        for call, function, is_conditional in _calls(source.tree, "", False)
        if id(call) not in inside and CALLEES.search(unparse(call.func)) and not OF_OTHERS.search(_owner(call))
    )
    return Rewritings(calls, any(map(_fills_weights, networks)))


def _rewriting(source: Source, call: ast.Call, function: str, is_conditional: bool) -> Rewriting:
    is_load = LOADS.search(unparse(call.func)) is not None
    return Rewriting(source.location(call), function, is_conditional and is_load)


def _networks(source: Source) -> list[ast.ClassDef]:
    """Classes with a `forward`, or whose bases are modules."""
    return [
        node
        for node in source.nodes_of(ast.ClassDef)
        if any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)
        or any("Module" in unparse(base) for base in node.bases)
    ]


def _fills_weights(network: ast.ClassDef) -> bool:
    """Whether a network gives weights of its own a constant, and none of them random numbers."""
    calls = [node for node in walk(network) if isinstance(node, ast.Call)]
    if any(RANDOM.search(last_name(call.func)) for call in calls):
        return False
    fills = (call for call in calls if last_name(call.func) in CONSTANT)
    return any("bias" not in unparse(call) for call in fills)


def _calls(node: ast.AST, function: str, is_conditional: bool) -> Iterator[tuple[ast.Call, str, bool]]:
    """The calls below a node with the name of the function around each, and whether a condition is around it."""
    for child in children(node):
        inner, asked = function, is_conditional
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner, asked = child.name, False
        elif isinstance(child, ast.If):
            asked = asked or "__main__" not in unparse(child.test)
        elif isinstance(child, ast.Call):
            yield child, function, is_conditional
        yield from _calls(child, inner, asked)


def _owner(call: ast.Call) -> str:
    return unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _used(source: Source) -> frozenset[str]:
    """The names that code outside of networks uses, without loads that a condition asks for."""
    inside = {id(node) for network in _networks(source) for node in walk(network)}
    asked = {
        id(call.func)
        for call, _, is_conditional in _calls(source.tree, "", False)
        if is_conditional and LOADS.search(last_name(call.func))
    }
    names = (node for node in walk(source.tree) if isinstance(node, ast.Name | ast.Attribute))
    used = {last_name(node) for node in names if id(node) not in inside and id(node) not in asked}
    return frozenset(used | {"__init__", "setup", "main"})
