"""Whether a metric, or code that its numbers go through, leaves out the first or the last token."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import trainer_methods
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

SHIFTS = lazy_pattern(r"\[[^\]\n]*(:\s*-1|\b1\s*:|\w\s*-\s*1\s*[,\]])[^\n]*|roll\(|narrow\(|shift")
"""Code that may leave out the first or the last token, or goes one back."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def may_shift(pipeline: Pipeline, location: Location) -> bool:
    """Whether a function around a location shifts, or one that calls it, that it calls, or that takes logits first."""
    source, scope = pipeline.source_of(location), blocks.scope_of(pipeline, location)
    if not isinstance(scope, Function):
        return source.contains(SHIFTS)
    prepared = [
        function.node
        for run in pipeline.runs
        if (function := trainer_methods.own_function(run.value("preprocess_logits_for_metrics"))) is not None
    ]
    return any(SHIFTS.search(unparse(node)) for node in (scope, *prepared, *_around(source, scope)))


def _around(source: Source, scope: Function) -> Iterator[ast.FunctionDef]:
    """The functions of the metric's file that call it, and those that it or one of these calls."""
    functions = source.nodes_of(ast.FunctionDef)
    name = "" if isinstance(scope, ast.Lambda) else scope.name
    callers = [node for node in functions if name and node is not scope and name in source.once(_called, node)]
    called = set[str]().union(*(_called(node) for node in (scope, *callers)))
    yield from callers
    yield from (node for node in functions if node is not scope and node.name in called)


def _called(function: Function) -> set[str]:
    return {last_name(node.func) for node in walk(function) if isinstance(node, ast.Call)}
