"""Softmaxes over the rows of a batch: a class is taken of each row, or the same scores meet the target of each row."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis.batch_scores import Batches, batches_in
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.class_axes import MEETS, conflicts, softmax_of
from lintrain.analysis.class_choices import axis_of, bare, followed, holds_one, scores_of, uses, values_of
from lintrain.analysis.hits import LOSS_NAME
from lintrain.analysis.tensor_forms import TORCH, is_over_rows
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

CHOSEN, SCORED, COLUMN = "a class is chosen for each row", "meets the targets of the rows", "a class of each row"
BATCHED = "gives scores for each row of its batch"


@dataclass(frozen=True, slots=True)
class MixedRows:
    """A softmax over the rows of what a network gives, and the code that needs the classes of each of these rows."""

    softmax: ast.Call
    needs: ast.expr
    meaning: str


def mixed_rows(source: Source) -> Iterator[MixedRows]:
    """The softmaxes over axis 0 of a file that mix the rows of a batch: `softmax(model(x), 0).argmax(1)`."""
    lines = [call.lineno for call in source.nodes_of(ast.Call) if is_over_rows(call)]
    functions = (each for each in source.nodes_of(ast.FunctionDef) if holds_one(each, lines))
    for scope in (source.tree, *functions) if lines else ():
        nodes = own_nodes(scope)
        for choice in _choices_for_rows(nodes):
            mixed = softmax_of(_given_before(scores_of(choice), nodes))
            if mixed is not None and _is_of_network(_given_before(mixed[1], nodes)):
                yield MixedRows(mixed[0], choice, CHOSEN)
        yield from _of_batches(nodes, batches_in(source, scope))
        yield from _contradicted(nodes)


def _contradicted(nodes: Sequence[ast.AST]) -> Iterator[MixedRows]:
    """The softmaxes that other code of their function contradicts; both axes may be meant, unless they meet."""
    along = {unparse(scores) for node in nodes if (scores := _along_classes(node)) is not None}
    for found in conflicts(nodes, values_of(nodes)):
        mixed = softmax_of(found.softmax)
        if found.meaning == MEETS or mixed is None or unparse(mixed[1]) not in along:
            yield MixedRows(found.softmax, found.needs, found.meaning)


def _of_batches(nodes: Sequence[ast.AST], batches: Batches) -> Iterator[MixedRows]:
    """The softmaxes of a batch's scores that meet its targets, or whose columns are taken."""
    values = values_of(nodes)
    along = {unparse(scores) for node in nodes if (scores := _along_classes(node)) is not None}
    scored = {unparse(call.args[0]): call for call in _losses_of_rows(nodes, batches)}
    for node in nodes:
        mixed = softmax_of(node) if isinstance(node, ast.Call) else None
        given = _call_of_transformer(mixed[1], values) if mixed is not None else None
        if mixed is not None and given is not None and unparse(mixed[1]) not in along:
            yield MixedRows(mixed[0], given, BATCHED)
        code = unparse(mixed[1]) if mixed is not None else ""
        if mixed is not None and code in scored and code not in along and batches.has_scores(mixed[1]):
            yield MixedRows(mixed[0], scored[code], SCORED)
        if isinstance(node, ast.Subscript) and _is_column(node):
            mixed = softmax_of(bare(followed(bare(node.value), values)))
            if mixed is not None and unparse(mixed[1]) not in along and batches.has_scores(mixed[1]):
                yield MixedRows(mixed[0], node, COLUMN)
    for use in uses(nodes):
        mixed = softmax_of(bare(followed(use.chosen, values))) if batches.is_part(use.target) else None
        if mixed is not None and unparse(mixed[1]) not in along and batches.has_scores(mixed[1]):
            yield MixedRows(mixed[0], use.node, SCORED)


def _call_of_transformer(scores: ast.expr, values: Mapping[str, Sequence[ast.expr]]) -> ast.Call | None:
    """The call of a model of transformers whose `logits` some scores are: their first axis is that of the rows."""
    match followed(scores, values):
        case ast.Attribute(value=owner, attr="logits"):
            call = followed(owner, values)
        case _:
            return None
    if not isinstance(call, ast.Call) or last_name(call.func)[:1].isupper():
        return None
    return call if any(each.arg in {None, "input_ids", "pixel_values"} for each in call.keywords) else None


def _along_classes(node: ast.AST) -> ast.expr | None:
    """What a softmax along another axis than the first is computed of: of both axes, both may be meant."""
    if not isinstance(node, ast.Call) or is_over_rows(node):
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="softmax" | "log_softmax"), args=args):
            return args[0] if unparse(owner) in TORCH and args else owner
        case _:
            return None


def _losses_of_rows(nodes: Sequence[ast.AST], batches: Batches) -> Iterator[ast.Call]:
    """The losses that get a target of each row of a batch."""
    for node in nodes:
        match node:
            case ast.Call(func=called, args=[_, target, *_]) if LOSS_NAME.search(unparse(called)):
                if batches.is_part(bare(target)):
                    yield node
            case _:
                pass


def _is_column(node: ast.Subscript) -> bool:
    """Whether an index takes one column: `[:, 1]`."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None), ast.Constant(value=int())]):
            return True
        case _:
            return False


def _choices_for_rows(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr="argmax")) if axis_of(node) == 1:
                yield node
            case (
                ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name()])], value=ast.Call() as call)
                | ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=1))
            ):
                if isinstance(call.func, ast.Attribute) and call.func.attr == "max" and axis_of(call) == 1:
                    yield call
            case _:
                pass


def _given_before(node: ast.expr, nodes: Sequence[ast.AST]) -> ast.expr:
    """An expression, or what the last statement before it gives the name that it is."""
    node = bare(node)
    given = [
        each
        for each in nodes
        if isinstance(each, ast.Assign) and isinstance(node, ast.Name) and each.lineno < node.lineno
        if unparse(each.targets[0]) == unparse(node)
    ]
    return bare(max(given, key=lambda each: each.lineno).value) if given else node


def _is_of_network(scores: ast.expr) -> bool:
    """Whether scores are the result of an object that is called: `model(x)`, `self.net(x)`, `model(**batch).logits`."""
    if isinstance(scores, ast.Attribute) and scores.attr == "logits":
        scores = scores.value
    match scores:
        case ast.Call(func=ast.Name(id=callee)):
            return callee[:1].islower()
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))):
            return owner == "self"
        case _:
            return False
