"""The two terms of a variational autoencoder, of which one is summed over a whole batch and the other is a mean.

The mean over all pixels is thousands of times smaller than their sum. Next to a divergence that is summed over the
batch, it is too small to keep anything in the code; a divergence that is a mean is nothing next to a sum of pixels.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FUNCTIONS = frozenset({"mse_loss", "l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"})
CLASSES = frozenset({"MSELoss", "L1Loss", "BCELoss", "BCEWithLogitsLoss"})

DIVERGENCE = lazy_pattern(
    r"\b1(?:\.0)? \+ .*- .*\bexp\(|\bexp\(.*- 1(?:\.0)? - |\bexp\(.*\) - 1\b|- 1(?:\.0)? - \w*log"
)


@dataclass(frozen=True, slots=True)
class Uneven:
    """A sum of two terms on other scales: where, and whether the divergence is the one that is summed."""

    location: Location
    is_divergence_summed: bool


def uneven(source: Source) -> Iterator[Uneven]:
    """The losses of a file that add a plain mean and a plain sum."""
    if not source.contains(r"\bexp\("):
        return
    seen = set[ast.expr]()
    for node in source.nodes_of(ast.BinOp):
        if not isinstance(node.op, ast.Add):
            continue
        for one, other in ((node.left, node.right), (node.right, node.left)):
            rebuilt, divergence = _reconstruction(source, one), _divergence(source, other)
            made = _made(source, one)
            # The terms that a function of the file returns are added up in training and in the evaluation.
            if rebuilt and divergence and {rebuilt, divergence} == {"mean", "sum"} and made not in seen:
                seen.add(made)
                yield Uneven(source.location(node), divergence == "sum")
                break


def _made(source: Source, node: ast.expr, steps: int = 3) -> ast.expr:
    """What a name was given before, also by a function of the file, if that is certain."""
    own = loss_terms.returned(source, node, None) if isinstance(node, ast.Call) and steps else None
    if own is not None:
        return _made(source, own, steps - 1)
    if not isinstance(node, ast.Name) or not steps:
        return node
    made = list(loss_terms.definitions(source, node))
    if len(made) != 1 or made[0][2] is not None:
        return node
    value, position, _ = made[0]
    own = loss_terms.returned(source, value, position) if isinstance(value, ast.Call) else None
    if own is not None:
        return _made(source, own, steps - 1)  # the sum is written where a function of the file is called
    return _made(source, value, steps - 1) if position is None else node


def _reconstruction(source: Source, node: ast.expr) -> str:
    """Whether a term is a regression loss that is a `mean` or a `sum`; empty for anything else."""
    call = _made(source, node)
    if not isinstance(call, ast.Call):
        return ""
    if last_name(call.func) not in FUNCTIONS:
        made = loss_terms.assigned(source, unparse(call.func))
        inner = call.func if isinstance(call.func, ast.Call) else made[0] if len(made) == 1 else None
        if not isinstance(inner, ast.Call) or last_name(inner.func) not in CLASSES:
            return ""
        call = inner
    words = {each.arg: each.value for each in call.keywords}
    if not words.keys().isdisjoint({"size_average", "reduce", "weight", None}):
        return ""
    reduction = words.get("reduction")
    if reduction is None:
        return "mean"
    return str(reduction.value) if isinstance(reduction, ast.Constant) else ""


def _divergence(source: Source, node: ast.expr) -> str:
    """Whether a term is a divergence from a normal prior that is a `mean` or a `sum` over everything."""
    made = _made(source, node)
    while True:
        match made:
            case ast.UnaryOp(operand=inner):
                made = _made(source, inner)
            case ast.BinOp(left=factor, op=ast.Mult(), right=inner) if _is_half(factor):
                made = _made(source, inner)
            case ast.BinOp(left=inner, op=ast.Mult(), right=factor) if _is_half(factor):
                made = _made(source, inner)
            case _:
                break
    match made:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum" | "mean" as name), args=[inner]):
            has_axes = bool(made.keywords)
        case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "mean" as name), args=[]):
            has_axes = bool(made.keywords)
        case _:
            return ""
    inner = _made(source, inner)
    is_reduced = any(isinstance(each, ast.Call) and last_name(each.func) in {"sum", "mean"} for each in walk(inner))
    return name if not has_axes and not is_reduced and DIVERGENCE.search(unparse(inner)) else ""


def _is_half(node: ast.expr) -> bool:
    return unparse(node) in {"0.5", "-0.5", "1 / 2", "-1 / 2"}
