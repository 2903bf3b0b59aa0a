"""Calls that are named after a seed, and may set one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import script_text
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

NAMED_AFTER_SEED = r"(?i)seed|determin|reproduc"
NAME = lazy_pattern(NAMED_AFTER_SEED)
SEEDS = lazy_pattern(r"(?i)seed\w*$|determin|reproduc|set_state$|set_rng")


def seed_calls(pipeline: Pipeline) -> Iterator[Location]:
    """The calls of all files that may set a seed: neither classes, nor functions of the project that set none.

    What a module does only if it is run itself does not happen in a run of the script.
    """
    defined = _defined(pipeline)
    for source in pipeline.sources.values():
        guards = [] if source is pipeline.source else source.cached(_guards)
        for call in script_text.calls_of(source, NAMED_AFTER_SEED):
            code = call.callee.code if call.callee else ""
            name = code.rpartition(".")[2]
            if NAME.search(name) is None or name[:1].isupper() or "Generator" in code:
                continue
            if defined.get(name, True) and not any(guard.holds(call.location) for guard in guards):
                yield call.location


def _defined(pipeline: Pipeline) -> dict[str, bool]:
    """The functions of all files that are named after a seed, with whether one of that name may set it."""
    found: dict[str, bool] = {}
    for source in pipeline.sources.values():
        for name, sets in source.cached(_functions):
            found[name] = found.get(name, False) or sets
    return found


def _functions(source: Source) -> list[tuple[str, bool]]:
    named = [node for node in source.nodes_of(ast.FunctionDef) if NAME.search(node.name)]
    return [(node.name, any(map(_may_set, walk(node)))) for node in named]


def _may_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and SEEDS.search(unparse(node.func)) is not None


def _guards(source: Source) -> list[Location]:
    """The blocks of a file that only its own run enters."""
    return [source.location(node) for node in source.tree.body if isinstance(node, ast.If) and _is_own_run(node)]


def _is_own_run(node: ast.If) -> bool:
    return "__main__" in unparse(node.test)
