"""Code that handles gradients itself: what changes them or computes them, apart from what only looks at them."""

from __future__ import annotations

import ast
import re

from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.startup.lazy_pattern import lazy_pattern

REPORTS = lazy_pattern(
    r"(^|\.)(print|log\w*|add_(histogram|scalar\w*)|append|info|debug|write|warning|update_metrics?)$", re.IGNORECASE
)
"""Functions that report what they are given."""

REDUCES = frozenset({"norm", "item", "mean", "sum", "max", "min", "isnan", "isfinite", "isinf", "std", "median"})
"""Methods and functions whose result is a number about a gradient, and no gradient."""


def handled(pipeline: Pipeline) -> frozenset[int]:
    """The events, by their order, in which a script changes gradients, computes them, or hands them on."""
    return pipeline.cached(_handled, pipeline)


def handles(pipeline: Pipeline, event: Event) -> bool:
    """Whether an event is one of those: reading `p.grad` for a histogram is not."""
    return event.act is Act.GRADIENT and event.order in handled(pipeline)


def _handled(pipeline: Pipeline, _: Pipeline) -> frozenset[int]:
    return frozenset(event.order for event in pipeline.acts(Act.GRADIENT) if not _only_looks(pipeline, event))


def _only_looks(pipeline: Pipeline, event: Event) -> bool:
    match blocks.statement_at(pipeline, event.location):
        # The innermost statement: the gradient is in its test.
        case ast.If() | ast.While() | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=callee)):
            return REPORTS.search(ast.unparse(callee)) is not None
        case (
            ast.Assign(targets=[ast.Name()], value=value)
            | ast.AugAssign(target=ast.Name(), value=value)
            | ast.Return(value=ast.expr() as value)
        ):
            return any(_reduces(node) for node in ast.walk(value))
        case _:
            return False


def _reduces(node: ast.AST) -> bool:
    """Whether a node makes a number of what contains a gradient."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in REDUCES and ".grad" in ast.unparse(node)
        case _:
            return False
