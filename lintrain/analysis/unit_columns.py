"""Embeddings that are normalized over the rows of a batch, and not each row by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import contrasts, loss_terms, tensor_forms
from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

OVER_ROWS = lazy_pattern(r"\b(?:dim|axis) ?= ?0|normalize\(")

REDUCES = lazy_pattern(r"mean\(|sum\(|squeeze\(|flatten\(\)|\[(?:-?\d+|\w+)\]|view\(-1\)|reshape\(-1\)")
"""Code that may make one row of several."""


def unit_columns(source: Source) -> Iterator[contrasts.WrongPairs]:
    """The rows that are compared by their products, and whose columns were divided by their length."""
    if not source.contains(OVER_ROWS) or not any(map(_names_first_axis, source.nodes_of(ast.Call))):
        return
    for call in chain(_of_products(source), _of_cosines(source), _of_networks(source)):
        yield contrasts.WrongPairs(
            source.location(call),
            "embeddings are normalized over the batch, so their products are no cosines",
            "normalize each row: `F.normalize(x, dim=1)`",
            "An embedding changes with the other rows of its batch, and long ones score higher. No error is raised.",
        )


def _names_first_axis(call: ast.Call) -> bool:
    """Whether a call by its name normalizes over its first axis, or gives the lengths along it."""
    given = [*call.args[1:], *(each.value for each in call.keywords)]
    is_first = any(isinstance(each, ast.Constant) and each.value == 0 for each in given)
    return is_first and last_name(call.func) in {"norm", "normalize"}


def _of_products(source: Source) -> Iterator[ast.expr]:
    """What normalizes both sides of a product over its rows."""
    for node in source.nodes:
        pair = contrasts.pair_of_rows(node) if isinstance(node, ast.BinOp | ast.Call) else None
        found = [_over_rows(source, each, contrasts.MOST_STEPS) for each in pair] if pair is not None else []
        if None not in found and not _is_transposed(pair):
            yield from (each for each in found[:1] if each is not None)


def _of_cosines(source: Source) -> Iterator[ast.expr]:
    """What normalizes both sides of a sum over the features, `(a * b).sum(dim=1)`, over its rows."""
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=function, args=[left, right, *_]) if last_name(function) == "cosine_similarity":
                pair = (_unsqueezed(left), _unsqueezed(right))
            case ast.Call(
                func=ast.Attribute(value=ast.BinOp(left=left, op=ast.Mult(), right=right), attr="sum"),
                args=given,
                keywords=named,
            ) if _is_last_axis([*given, *(each.value for each in named if each.arg in {"dim", "axis"})]):
                pair = (left, right)
            case _:
                continue
        found = [each for side in pair if (each := _over_rows(source, side, contrasts.MOST_STEPS)) is not None]
        if len(found) == len(pair) or (found and all(_is_normalized(source, side) for side in pair)):
            yield found[0]


def _is_normalized(source: Source, node: ast.expr) -> bool:
    """Whether an expression is divided by its length, over whichever axis."""
    made = contrasts.made_by(source, node, contrasts.MOST_STEPS)
    return isinstance(made, ast.Call) and last_name(made.func) == "normalize"


def _unsqueezed(node: ast.expr) -> ast.expr:
    """The rows that are compared with all others: `z` of `z.unsqueeze(1)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze")):
            return inner
        case _:
            return node


def _is_last_axis(axes: list[ast.expr]) -> bool:
    return len(axes) == 1 and unparse(axes[0]) in {"1", "-1"}


def _of_networks(source: Source) -> Iterator[ast.expr]:
    """What normalizes the output of a network over its rows, in a file that compares rows by their products."""
    for owner in source.nodes_of(ast.ClassDef):
        forwards = (each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "forward")
        last = next(map(tensor_forms.last_call, forwards), None)
        is_normalized = last is not None and last_name(last.func) == "normalize"
        if last is None or not is_normalized or not tensor_forms.MAKES_ROWS.search(unparse(owner)):
            continue
        if _over_rows(source, last, 0) is not None:
            yield last
    for function in source.nodes_of(ast.FunctionDef) if source.contains(COMPARED) else ():
        if function.args.args[:1] and function.args.args[0].arg == "self":
            calls = (node for node in walk(function) if isinstance(node, ast.Call))
            yield from (call for call in calls if _is_own_output_over_rows(source, call))


def _is_own_output_over_rows(source: Source, call: ast.Call) -> bool:
    """Whether a method normalizes over the rows what a layer of its network gives."""
    if _over_rows(source, call, 0) is None:
        return False
    given = contrasts.made_by(source, call.args[0], 1)
    return isinstance(given, ast.Call) and NETWORK.fullmatch(unparse(given.func)) is not None


NETWORK = lazy_pattern(r"self\.(?:\w*(?:encoder|backbone|project|head|net|model|embed|mlp|fc)\w*)(?:\.\w+)*")
"""Code of a part of a network that gives embeddings."""

COMPARED = lazy_pattern(r"(?i)cosine|contrast|embedding|simclr|projection|similarity")
"""Words of code that compares the directions of rows."""


def _is_transposed(pair: tuple[ast.expr, ast.expr] | None) -> bool:
    """Whether the products are those of columns, as in a loss that decorrelates features."""
    return pair is not None and contrasts.PRODUCT.search(unparse(pair[0])) is not None


def _over_rows(source: Source, node: ast.expr, steps: int) -> ast.expr | None:
    """The call that normalizes an expression over its first axis, if one does."""
    match node:
        case ast.Call(func=called, args=given, keywords=named) if last_name(called) == "normalize":
            axes = [*given[2:3], *(each.value for each in named if each.arg in {"dim", "axis"})]
            is_first = bool(axes) and isinstance(axes[0], ast.Constant) and axes[0].value == 0
            return node if is_first and given and not _is_one_row(source, given[0], steps) else None
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in contrasts.MOVES:
            return _over_rows(source, inner, steps)
        case ast.Name() if steps:
            made = [each for each, *rest in loss_terms.definitions(source, node) if rest == [None, None]]
            made = made or list(contrasts.given_for(source, node))
            found = [_over_rows(source, each, steps - 1) for each in made]
            return found[0] if found and None not in found else None
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _over_rows(source, right, steps) or _over_rows(source, left, steps)
        case ast.BinOp(left=divided, op=ast.Div(), right=length):
            is_first = _is_length_over_rows(source, unparse(divided), length, steps)
            return node if is_first and not _is_one_row(source, divided, steps) else None
        case _:
            return None


def _is_one_row(source: Source, node: ast.expr, steps: int) -> bool:
    """Whether an expression may be a single row: an average of rows, or one that is picked."""
    return REDUCES.search(unparse(contrasts.made_by(source, node, steps))) is not None


def _is_length_over_rows(source: Source, rows: str, length: ast.expr, steps: int) -> bool:
    """Whether a divisor is `x.norm(dim=0)` or `torch.norm(x, dim=0)` of the rows that it divides."""
    match length:
        case ast.Call(func=ast.Attribute(attr="norm") as called, args=given, keywords=named):
            axes = [each.value for each in named if each.arg in {"dim", "axis"}]
            is_first = bool(axes) and isinstance(axes[0], ast.Constant) and axes[0].value == 0
            return is_first and rows in {unparse(called.value), *(unparse(each) for each in given[:1])}
        case ast.Name() if steps:
            made = [each for each, position, _ in loss_terms.definitions(source, length) if position is None]
            return len(made) == 1 and _is_length_over_rows(source, rows, made[0], steps - 1)
        case _:
            return False
