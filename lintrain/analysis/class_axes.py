"""Softmaxes over the rows of a batch whose function shows elsewhere that the classes are on another axis."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.class_choices import CHOOSING, axis_of, followed, scores_of
from lintrain.analysis.tensor_forms import TORCH, is_over_rows
from lintrain.source.nodes import unparse, whole_number
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CHOSEN, MEETS = "chooses along dimension 1", "meets probabilities along dimension 1"
COUNTED, SUMMED = "dimension 1 is that of the classes", "is summed along another dimension"

OF_CLASSES = lazy_pattern(r"(?i)logit|pred|y_?hat|(?:^|[._])outs?(?:puts?)?(?:$|[._\[])")
CLASSES = lazy_pattern(r"(?i)(?:^|_)(?:classes|class|labels?|c|k)$|^n_?cls$")
SAME_NUMBERS = frozenset({"detach", "cpu", "numpy", "clone", "float", "double", "half", "to", "cuda", "data"})
SOFTMAXES = frozenset({"softmax", "log_softmax"})
FEW = frozenset({1, 2})
"""Numbers with which code compares a count of classes: one output, or two."""

Values: TypeAlias = Mapping[str, Sequence[ast.expr]]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A softmax over axis 0, and the code that shows that the classes are on another axis."""

    softmax: ast.Call
    needs: ast.expr
    meaning: str


def conflicts(nodes: Sequence[ast.AST], values: Values) -> Iterator[Conflict]:
    """The softmaxes over axis 0 in some nodes of one function that other code of it contradicts."""
    counted = dict(_counts_of_classes(nodes))
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            yield from _apart(node, (node.left, node.right), values, is_same=True)
        if not isinstance(node, ast.Call):
            continue
        if last_name(node.func) == "kl_div" and len(node.args) > 1:
            yield from _apart(node, (node.args[0], node.args[1]), values, is_same=False)
        read = _read_along(node)
        mixed = softmax_of(_numbers(read, values)) if read is not None else None
        if mixed is not None and not isinstance(mixed[1], ast.Subscript) and OF_CLASSES.search(unparse(mixed[1])):
            yield Conflict(mixed[0], node, CHOSEN)
        summed = _weights_of_sum(node)
        mixed = softmax_of(_numbers(summed, values)) if summed is not None else None
        if mixed is not None:
            yield Conflict(mixed[0], node, SUMMED)
        mixed = softmax_of(node)
        if mixed is not None and unparse(mixed[1]) in counted:
            yield Conflict(mixed[0], counted[unparse(mixed[1])], COUNTED)


def softmax_of(made: ast.expr) -> tuple[ast.Call, ast.expr] | None:
    """The softmax over axis 0 that an expression is, and what it is computed of."""
    match made:
        case ast.Call(func=ast.Call() as layer, args=[scores]) if is_over_rows(layer):
            return layer, scores
        case ast.Call() if is_over_rows(made) and last_name(made.func) in SOFTMAXES:
            given = _scores_of_softmax(made)
            return (made, given) if given is not None else None
        case _:
            return None


def _scores_of_softmax(call: ast.Call) -> ast.expr | None:
    if isinstance(call.func, ast.Attribute) and unparse(call.func.value) not in TORCH:
        return call.func.value
    return call.args[0] if call.args else None


def _numbers(node: ast.expr, values: Values) -> ast.expr:
    """What an expression, or the name that it is, has the numbers of: without moves and conversions."""
    for _ in range(3):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME_NUMBERS:
            node = node.func.value
        given = followed(node, values)
        if given is node:
            return node
        node = given
    return node


def _read_along(call: ast.Call) -> ast.expr | None:
    """The values among which a call certainly chooses along axis 1: `probs.argmax(1)`, `probs.topk(3, dim=1)`."""
    name = last_name(call.func)
    if not isinstance(call.func, ast.Attribute) or name not in CHOOSING | {"topk"}:
        return None
    axis = next((whole_number(each.value) for each in call.keywords if each.arg in {"dim", "axis"}), None)
    if axis is None and name != "topk":
        axis = axis_of(call)
    return scores_of(call) if axis == 1 else None


def _apart(node: ast.expr, sides: tuple[ast.expr, ast.expr], values: Values, *, is_same: bool) -> Iterator[Conflict]:
    """The softmax over axis 0 that meets one along axis 1: of the same scores if `is_same`."""
    for one, other in (sides, sides[::-1]):
        mixed, along = softmax_of(_numbers(one, values)), _numbers(other, values)
        if mixed is None or not isinstance(along, ast.Call) or last_name(along.func) not in SOFTMAXES:
            continue
        scores = _scores_of_softmax(along)
        names = {last_name(mixed[0].func), last_name(along.func)}
        is_pair = not is_same or (scores is not None and unparse(scores) == unparse(mixed[1]) and len(names) > 1)
        if is_pair and axis_of_softmax(along) == 1:
            yield Conflict(mixed[0], node, MEETS)


def axis_of_softmax(call: ast.Call) -> int | None:
    """The axis along which a softmax gives probabilities, if it is written out."""
    is_method = isinstance(call.func, ast.Attribute) and unparse(call.func.value) not in TORCH
    given = [*call.args[0 if is_method else 1 :], *(each.value for each in call.keywords if each.arg == "dim")]
    return whole_number(given[0]) if given else None


def _weights_of_sum(call: ast.Call) -> ast.expr | None:
    """The weights of `(x * weights.unsqueeze(-1)).sum(dim=1)`, a sum along another axis than the first or the last."""
    is_function = isinstance(call.func, ast.Attribute) and unparse(call.func.value) == "torch"
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "sum":
        return None
    axis = [*call.args[is_function:], *(each.value for each in call.keywords if each.arg == "dim")]
    product = (call.args[0] if call.args else None) if is_function else call.func.value
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult) or not axis:
        return None
    if whole_number(axis[0]) != 1:
        return None
    for side in (product.left, product.right):
        match side:
            case ast.Call(func=ast.Attribute(value=weights, attr="unsqueeze"), args=[last]) if whole_number(last) == -1:
                return weights
            case _:
                pass
    return None


def _counts_of_classes(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """The code of the scores whose axis 1 is read as that of the classes: `num_classes = logits.shape[1]`."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if CLASSES.search(name):
                size = _second_size(value)
            case ast.Compare(left=value, comparators=[ast.Constant(value=number)]) if number in FEW:
                size = _second_size(value)
            case _:
                continue
        if size is not None and OF_CLASSES.search(unparse(size)):
            yield unparse(size), value


def _second_size(node: ast.expr) -> ast.expr | None:
    """The tensor whose size along axis 1 an expression is."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=owner, attr="shape"), slice=ast.Constant(value=1)):
            return owner
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[ast.Constant(value=1)]):
            return owner
        case _:
            return None
