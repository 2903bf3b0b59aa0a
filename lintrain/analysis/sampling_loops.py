"""Loops that generate tokens one by one: each pass gets all tokens so far, and the best or a drawn one is appended.

A decoder that is trained on what it generates keeps the scores of each pass, so these loops must keep none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import evaluations, training_loops
from lintrain.analysis.built_layers import last_name
from lintrain.pipeline.events import Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

COUNTED = lazy_pattern(r"\b(?:range|trange|count)\(")
CHOOSES = lazy_pattern(r"\b(?:multinomial|argmax)\(")
SCORES = lazy_pattern(
    r"log_?prob|log_softmax|\blogps?\b|loss|nll|entropy|advantage|reward|requires_grad", re.IGNORECASE
)
"""Code that may learn from what it generates."""

JOINS = frozenset({"append", "extend", "cat", "concat", "hstack", "stack", "concatenate", "add", "insert"})


def generating_loop(pipeline: Pipeline, forward: Event) -> Loop | None:
    """The loop around a pass that generates tokens and keeps nothing but these; None for any other pass."""
    loop = forward.loops[-1] if forward.loops else None
    if loop is None or not loop.location.holds(forward.location):
        return None
    code = pipeline.code(loop.location)
    if (
        not (COUNTED.search(loop.header) or code.startswith("while "))
        or not CHOOSES.search(code)
        or SCORES.search(code)
    ):
        return None
    if any(event.act in evaluations.TRAINING_ACTS for event in training_loops.events_in(pipeline, loop)):
        return None
    is_used = evaluations.is_in_eval_mode(pipeline, forward) or evaluations.is_trained(pipeline, forward.subject)
    return loop if is_used and _keeps_tokens(pipeline.source_of(loop.location), loop, forward) else None


def _keeps_tokens(source: Source, loop: Loop, forward: Event) -> bool:
    """Whether a loop joins tokens, and no scores of the pass leave it."""
    node = next((each for each in source.nodes_of(ast.For, ast.While) if source.location(each) == loop.location), None)
    if node is None:
        return False
    scores = _scores_in(source, node, forward)
    joined = [call for call in walk(node) if isinstance(call, ast.Call) and last_name(call.func) in JOINS]
    around = [each for each in source.nodes_of(ast.FunctionDef) if source.location(each).holds(loop.location)]
    returned = (each for each in walk(around[-1]) if isinstance(each, ast.Return | ast.Yield)) if around else ()
    kept = [
        *(arg for call in joined for arg in call.args),
        *(each.value for each in returned if each.value),
        *_stored(node),
    ]
    return bool(joined) and not any(scores & _names(each) for each in kept)


def _scores_in(source: Source, loop: ast.stmt, forward: Event) -> set[str]:
    """The names of what a pass gives and of what is made of it, up to the choice of a token."""
    found = set[str]()
    for node in walk(loop):
        if isinstance(node, ast.Assign):
            is_pass = source.location(node.value).holds(forward.location) and not CHOOSES.search(unparse(node.value))
            if is_pass or found & _names(node.value):
                found |= {name for each in node.targets for name in _names(each) if not isinstance(each, ast.Subscript)}
    return found


def _stored(loop: ast.stmt) -> Iterator[ast.expr]:
    """What a loop stores in entries and attributes: `outputs[t] = scores`."""
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Subscript() | ast.Attribute()], value=value):
                yield value
            case _:
                pass


def _names(node: ast.AST) -> set[str]:
    """The names in code, without those of which a token is chosen."""
    chosen = {id(part) for each in walk(node) if _chooses(each) for part in walk(each)}
    return {each.id for each in walk(node) if isinstance(each, ast.Name) and id(each) not in chosen}


def _chooses(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in {"argmax", "multinomial"}
