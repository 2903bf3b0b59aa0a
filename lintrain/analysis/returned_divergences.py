"""Divergences of variational autoencoders that a function returns with the wrong sign, for a training elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.loss_terms import Term
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

DIVERGENCE = lazy_pattern(r"\bexp\(")

LOSS = lazy_pattern(r"(?i)loss|criterion|objective")
ALONE = lazy_pattern(r"(?i)(?:^|_)kld?(?:_|$)|kl_?div|divergence")
"""Names of what is to be small, and of a divergence, which is never negative."""

GAIN = lazy_pattern(r"(?i)elbo|likelihood|evidence|reward")
"""Names of what is to be large."""


def returned_terms(source: Source) -> Iterator[list[Term]]:
    """The terms of what functions return as a loss, and of what others return as a divergence by their names."""
    if not source.contains(DIVERGENCE):
        return
    for function in source.nodes_of(ast.FunctionDef):
        for node in own_nodes(function):
            value = node.value if isinstance(node, ast.Return) else None
            value = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
            if value is None or GAIN.search(function.name) is not None:
                continue
            terms = list(loss_terms.terms(source, value))
            is_loss = LOSS.search(function.name) is not None or LOSS.search(_name(value)) is not None
            if (is_loss and len(terms) > 1) or (ALONE.search(function.name) is not None and len(terms) == 1):
                yield terms


def _name(value: ast.expr) -> str:
    return unparse(value) if isinstance(value, ast.Name | ast.Attribute) else ""
