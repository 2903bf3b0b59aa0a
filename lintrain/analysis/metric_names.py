"""Which metrics a file may call, as far as its text and its imports show."""

from __future__ import annotations

import ast

from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

MEASURES = lazy_pattern(r"\bmetrics\b|\bevaluate\b|load_metric")
"""What a file contains that calls a metric of scikit-learn or `evaluate`."""


def may_call(source: Source, names: frozenset[str]) -> bool:
    """Whether a file imports, reads or loads a metric of one of these names: `metrics.f1_score`, `load("f1")`."""
    return source.contains(MEASURES) and (
        any(node.name in names for node in source.nodes_of(ast.alias))
        or any(node.attr in names for node in source.nodes_of(ast.Attribute))
        or any(node.id in names for node in source.nodes_of(ast.Name))
        or any(isinstance(node.value, str) and node.value in names for node in source.nodes_of(ast.Constant))
    )
