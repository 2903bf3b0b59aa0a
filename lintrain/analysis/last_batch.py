"""Metrics that are computed after a loop over batches, from what its last batch left."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import hits
from lintrain.analysis.script_text import mentions
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LastBatch:
    """A metric that is computed after a loop from what the last batch left.

    Where, its name or code, the names that it compares, the loop, and whether it is written as a comparison.
    """

    location: Location
    metric: str
    names: tuple[str, ...]
    loop: Location
    is_comparison: bool = False


METRICS = frozenset(
    {
        *("accuracy_score", "balanced_accuracy_score", "f1_score", "precision_score", "recall_score", "roc_auc_score"),
        *("classification_report", "confusion_matrix", "mean_squared_error", "mean_absolute_error", "r2_score"),
    }
)
"""Functions of scikit-learn that compare targets with predictions."""


def metrics_of_last_batch(pipeline: Pipeline) -> Iterator[LastBatch]:
    """The metrics after a loop over batches whose targets and predictions are those of its last iteration."""
    source = pipeline.source
    if not source.cached(hits.loops_over_loaders) or mentions(pipeline, hits.WHOLE):
        return
    for call in source.nodes_of(ast.Call):
        metric = _metric(call)
        if metric is None:
            continue
        name, names, is_comparison = metric
        here = source.location(call)
        scope = blocks.scope_of(pipeline, here)
        for loop, _ in source.cached(hits.loops_over_loaders):
            at = source.location(loop)
            is_before = blocks.scope_of(pipeline, at) is scope and (loop.end_lineno or 0) < here.line
            if is_comparison and any(map(hits.trains, walk(loop))):
                # What a log says about training may be about its last batch.
                continue
            if is_before and not hits.leaves(loop) and _bound_by_each_batch(source, scope, loop, names):
                yield LastBatch(here, name, tuple(names), at, is_comparison)
                break


def _metric(call: ast.Call) -> tuple[str, list[str], bool] | None:
    """The name of a metric, the names that it compares, and whether it is written as a comparison."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    names = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
    if name in METRICS and len(names) == 2:
        return name, names, False
    if name not in {"sum", "mean"}:
        return None
    reduced = call.args[0] if call.args else getattr(call.func, "value", None)
    match hits.same_number(reduced) if reduced is not None else None:
        case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]) as compared:
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]) as compared:
            pass
        case _:
            return None
    match hits.same_number(left), hits.same_number(right):
        case ast.Name(id=one), ast.Name(id=other):
            return unparse(compared), [one, other], True
        case _:
            return None


def _bound_by_each_batch(source: Source, scope: ast.AST, loop: ast.For, names: Sequence[str]) -> bool:
    """Whether only a loop binds names, in each iteration to something else."""
    inside = {id(node) for node in walk(loop)}
    for name in names:
        stored = [
            node
            for node in walk(scope)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ]
        if not stored or any(id(node) not in inside for node in stored):
            return False
        values = [node.value for node in walk(loop) if isinstance(node, ast.Assign) and hits.binds(node, name)]
        is_sum = any(isinstance(node, ast.AugAssign) and unparse(node.target) == name for node in walk(loop))
        if is_sum or any(_keeps(value, name) for value in values):
            return False
    return True


def _keeps(value: ast.expr, name: str) -> bool:
    """Whether a value may hold more than one batch; `y = y.cpu()` takes the same one to another place."""
    is_more = name in hits.names_in(value) and not _is_same(value, name)
    return is_more or isinstance(value, ast.List | ast.Dict | ast.ListComp)


def _is_same(value: ast.expr, name: str) -> bool:
    """Whether a value is what a name held, in another place or of another type."""
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=owner)):
                value = owner
            case ast.Attribute(value=owner) | ast.Subscript(value=owner):
                value = owner
            case ast.Name(id=found):
                return found == name
            case _:
                return False
