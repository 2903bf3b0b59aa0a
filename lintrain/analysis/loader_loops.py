"""The loops of a file that iterate over the batches of a loader."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

WRAPS = frozenset({"enumerate", "tqdm", "track", "iter"})
"""Functions that give the batches of a loader."""

LOADER = lazy_pattern(r"loader|_dl$|^dl$|(^|\.)[tv]l$|batches$", re.IGNORECASE)
"""Names of what gives batches."""


def loops_over_loaders(source: Source) -> list[tuple[ast.For, str]]:
    """The loops over the batches of a loader, with the code of the loader."""
    made = {loader: loader for loader in _loaders_made(source)}
    made |= _wrapped_loaders(source, made)
    found = [(loop, _loader_in(loop.iter, made)) for loop in source.nodes_of(ast.For)]
    return [(loop, loader) for loop, loader in found if loader]


def _wrapped_loaders(source: Source, made: Mapping[str, str]) -> dict[str, str]:
    """The loaders of the names that hold one in something to iterate over: `with tqdm(loader) as batches`."""
    found: dict[str, str] = {}
    for node in source.nodes_of(ast.With, ast.Assign):
        match node:
            case ast.With(items=items):
                pairs = [(item.optional_vars, item.context_expr) for item in items]
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        for name, value in pairs:
            is_wrapped = isinstance(value, ast.Call) and _wraps(last_name(value.func))
            if isinstance(name, ast.Name) and is_wrapped and (loader := _loader_in(value, made)):
                found[name.id] = loader
    return found


def _loaders_made(source: Source) -> set[str]:
    """What a file gives nothing but a `DataLoader(…)`, whatever its name says."""
    assigned = source.nodes_of(ast.Assign)
    calls = [(node, node.value.func) for node in assigned if isinstance(node.value, ast.Call)]
    loaders = [node for node, called in calls if last_name(called) == "DataLoader"]
    made = {unparse(target) for node in loaders for target in node.targets}
    others = [node for node in assigned if node not in loaders] if made else []
    return made - {unparse(target) for node in others for target in node.targets}


def _loader_in(over: ast.expr, made: Mapping[str, str]) -> str:
    match over:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner, *_]) if _wraps(name):
            return _loader_in(inner, made)
        case ast.Call(func=called) if last_name(called) == "DataLoader":
            return unparse(over)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            code = unparse(over)
            return made.get(code) or (code if LOADER.search(code) else "")
        case _:
            return ""


def _wraps(name: str) -> bool:
    """Whether a function of this name gives the batches of a loader: also one that shows a progress bar."""
    return name in WRAPS or "progress" in name.lower()
