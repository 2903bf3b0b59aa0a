"""Functions that change images at random, as data sets of TensorFlow map them over their rows, and what caches that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import takewhile

from lintrain.analysis import handed_on, tf_datasets
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

RANDOM_CALL = lazy_pattern(r"(?:^|\.)(?:image\.random_\w+|random\.(?:uniform|normal|shuffle))$")
"""Functions of TensorFlow that draw other numbers in each call."""

RANDOM_LAYER = lazy_pattern(r"\b(?:Random(?:Flip|Rotation|Zoom|Crop|Translation|Contrast|Brightness|Shear|Erasing))\(")
"""Layers of Keras that augment images."""

MORE_ROWS = frozenset({"repeat", "concatenate", "flat_map", "interleave"})
"""Methods by which a data set may hold several augmented copies of each row on purpose."""

DEEPEST = 2


def cached_augmentations(source: Source) -> Iterator[tuple[Location, Location]]:
    """The `cache` calls of rows that were changed at random before, and are not again: where, and the `map`."""
    cached = [call for call in calls_of(source, frozenset({"cache"})) if isinstance(call.func, ast.Attribute)]
    changes = [call for call in calls_of(source, frozenset({"map"})) if _is_random_map(source, call)] if cached else []
    earlier = {id(before) for call in changes for before in _chain(source, call)}
    for call in cached if changes else ():
        before = list(takewhile(lambda each: _name(each) not in MORE_ROWS, _chain(source, call)))
        whole = _chain(source, call)
        random = next((each for each in before if any(each is one for one in changes)), None)
        if random is not None and len(before) == len(whole) and id(call) not in earlier:
            yield tf_datasets.name_at(source, call), tf_datasets.name_at(source, random)


def _chain(source: Source, call: ast.Call) -> list[ast.Call]:
    return list(tf_datasets.made_by(source, call.func.value)) if isinstance(call.func, ast.Attribute) else []


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_random_map(source: Source, call: ast.Call) -> bool:
    """Whether `rows.map(function)` changes the rows by numbers that it draws."""
    return isinstance(call.func, ast.Attribute) and bool(call.args) and _draws(source, call.args[0], DEEPEST)


def _draws(source: Source, mapped: ast.expr, depth: int) -> bool:
    bodies: Sequence[ast.AST] = [mapped] if isinstance(mapped, ast.Lambda) else ()
    if isinstance(mapped, ast.Name | ast.Attribute):
        bodies = handed_on.functions_of(source, handed_on.plain_name(mapped))
    if len(bodies) != 1:
        return False
    for call in (each for each in walk(bodies[0]) if isinstance(each, ast.Call)):
        if RANDOM_CALL.search(unparse(call.func)) or _is_augmenting(source, call.func):
            return not any(each.arg == "seed" and "stateless" in unparse(call.func) for each in call.keywords)
        if depth and isinstance(call.func, ast.Name) and _draws(source, call.func, depth - 1):
            return True
    return False


def _is_augmenting(source: Source, called: ast.expr) -> bool:
    """Whether what is called is a layer that augments, or a sequence of such layers."""
    made = called
    if isinstance(called, ast.Name | ast.Attribute):
        made = handed_on.given_to(source, called) or called
    return isinstance(made, ast.Call) and RANDOM_LAYER.search(f"{unparse(made)}") is not None
