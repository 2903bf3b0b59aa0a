"""Shares between 0 and 1 that a script computes with `//`, which makes them 0 until the last step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHARES = lazy_pattern(r"(?i)progress|ratio|frac|share|alpha|coeff|factor|^p$|^t$|mult")
ACCURACIES = lazy_pattern(r"(?i)(?:^|_)acc(?:uracy|uracies|s)?(?:_|$)|accuracy|precision|recall")
LOSSES = lazy_pattern(r"(?i)loss")
STEPS = lazy_pattern(r"(?i)^(?:\w*_)?(?:steps?|it|iters?|iterations?|epochs?|updates?|ep)$|^[ijte]$")
"""Names of a number that grows while the training goes on."""

TOTALS = lazy_pattern(
    r"(?i)^(?:max|total|num|n|train|training)_?\w*(?:steps?|iters?|iterations?|epochs?|updates?)$|^T_max$|_(?:max|total)$"
    r"|^epochs$|^steps$|^total$"
)
HITS = lazy_pattern(r"(?i)correct|hits?$|right|^tp$|matches|true_pos")
COUNTS = lazy_pattern(r"(?i)total|count|num|size|^n$|samples|rows")


@dataclass(frozen=True, slots=True)
class Floored:
    """A division with `//` whose result is to be a fraction: where, the same with `/`, and what it is a share of."""

    location: Location
    divided: str
    of: str


def floored_ratios(source: Source) -> Iterator[Floored]:
    """The shares of a training's progress, the accuracies and mean losses that are rounded down to whole numbers."""
    if "//" not in source.text:
        return
    statements: Sequence[ast.Assign | ast.AugAssign | ast.Return] = source.nodes_of(
        ast.Assign, ast.AugAssign, ast.Return
    )
    for node in statements:
        value = node.value
        if value is None or not any(isinstance(each, ast.FloorDiv) for each in walk(value)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        name = unparse(targets[0]).rpartition(".")[2] if targets[0] is not None else ""
        for ratio, is_share in _ratios(value):
            of = _meaning(ratio, name, is_share=is_share)
            if of:
                divided = unparse(ast.BinOp(ratio.left, ast.Div(), ratio.right))
                yield Floored(source.location(ratio), divided, of)


def _ratios(node: ast.expr, *, is_share: bool = False) -> Iterator[tuple[ast.BinOp, bool]]:
    """The divisions with `//` that a value is, and whether the code around needs a fraction: `1 - a // b`, a cosine."""
    match node:
        case ast.BinOp(op=ast.FloorDiv()):
            yield node, is_share
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=inner):
            yield from _ratios(inner, is_share=True)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Pow(), right=right):
            for each in (left, right):
                # `100 * correct // total` are whole per cent, and a power has whole exponents: both are meant.
                is_inner = not isinstance(each, ast.BinOp) or not isinstance(each.op, ast.FloorDiv)
                yield from _ratios(each, is_share=is_share) if is_inner or is_share else ()
        case ast.Call(args=given) if last_name(node.func) in {"min", "max", "float"}:
            for each in given:
                yield from _ratios(each, is_share=is_share)
        case ast.Call(args=[inner]) if last_name(node.func) in {"cos", "sin"}:
            yield from _ratios(inner, is_share=True)
        case _:
            pass


def _meaning(ratio: ast.BinOp, name: str, *, is_share: bool) -> str:
    """What a quotient is a share of; empty if that is not certain."""
    left, right = _names(ratio.left), _names(ratio.right)
    has_product = any(isinstance(each, ast.Mult) for each in walk(ratio.left))
    if has_product or any("per" in each or "every" in each for each in right):
        return ""
    is_len = isinstance(ratio.right, ast.Call) and last_name(ratio.right.func) == "len"
    is_progress = any(map(STEPS.search, left)) and any(map(TOTALS.search, right)) and not any(map(TOTALS.search, left))
    if is_progress and (is_share or SHARES.search(name)):
        return "the progress of the training"
    is_count = is_len or any(map(COUNTS.search, right))
    if ACCURACIES.search(name) and any(map(HITS.search, left)) and is_count:
        return "the correct rows among all"
    if LOSSES.search(name) and any(map(LOSSES.search, left)) and is_count:
        return "a mean loss"
    return ""


def _names(node: ast.expr) -> set[str]:
    return loss_terms.names(node) - {"self", "args", "cfg", "config", "len"}
