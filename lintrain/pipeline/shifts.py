"""Which tokens a model is given and which it is scored on: the same ones, or the same ones moved by one place."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping

from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import Model, Task, Tensor
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Unknown, Value, text_of
from lintrain.pipeline.values.tensors import Derived, root_of
from lintrain.pipeline.values.training import ModelCall
from lintrain.source.nodes import unparse
from lintrain.source.parsing import expression_of
from lintrain.startup.lazy_dataclass import dataclass

UNSHIFTED = ("xlnet", "xlm-", "xlm_", "xlmwith", "transfoxl", "transfo-xl", "prophetnet")
"""Families whose causal heads compare a position with the label of the same position."""

FILLED_UP = "1:+"
"""The stretch of all but the first token, and one more at the end: `ids[1:] + [-100]`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of some tokens: the thing that holds them, and the code in the brackets after it, empty for all."""

    source: Hashable
    stretch: str = ""


def part_of(value: Value) -> Part | None:
    """The tokens that a value holds; None if it cannot be followed."""
    if isinstance(value, ColumnValues):
        column = value.column
        name = column.copied_from or column.masked_from or column.name
        return Part((id(value.dataset), name), value.stretch) if name and value.dataset is not UNKNOWN else None
    root = root_of(value.of if isinstance(value, Tensor) else value)
    if isinstance(root, Derived):
        whole = part_of(root.of)
        if whole is not None and whole.stretch:
            # Of one piece, such as a chunk of a text: what the same code cuts out in each round.
            return Part((whole.source, root.of.origin), root.text)
        return Part(whole.source, root.text) if whole is not None else None
    return Part(id(root)) if isinstance(root, Unknown | LibraryObject) and root is not UNKNOWN else None


def are_same_tokens(one: Value, other: Value) -> bool:
    """Whether two values certainly are the same tokens, none left out of either."""
    first, second = part_of(one), part_of(other)
    is_masked = any(isinstance(each, ColumnValues) and each.column.masked_from for each in (one, other))
    return first is not None and first == second and not first.stretch and not is_masked


def are_next_tokens(tokens: Value, following: Value) -> bool:
    """Whether the second value certainly holds, at each position, the token that follows in the first."""
    first, second = part_of(tokens), part_of(following)
    if first is None or second is None or first.source != second.source:
        return False
    return is_moved_by_one(first.stretch, second.stretch)


def is_moved_by_one(stretch: str, other: str) -> bool:
    """Whether `x[other]` is `x[stretch]` moved by one: `:-1` and `1:`, `i:i + n` and `i + 1:i + n + 1`."""
    if not stretch and other == FILLED_UP:
        return True
    first, second = _keys(stretch), _keys(other)
    if len(first) != len(second) or not first:
        return False
    if [ast.dump(key) for key in first[:-1]] != [ast.dump(key) for key in second[:-1]]:
        return False
    one, two = first[-1], second[-1]
    if not isinstance(one, ast.Slice) or not isinstance(two, ast.Slice) or one.step or two.step:
        return False
    return _steps_on(one.lower, two.lower) and (_steps_on(one.upper, two.upper) or _ends_one_earlier(one, two))


def _keys(stretch: str) -> list[ast.expr]:
    try:
        node = expression_of(f"x[{stretch}]") if stretch else None
    except SyntaxError:
        return []
    if not isinstance(node, ast.Subscript):
        return []
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _ends_one_earlier(one: ast.Slice, two: ast.Slice) -> bool:
    return two.upper is None and one.upper is not None and _terms(one.upper) == {"": -1}


def _steps_on(one: ast.expr | None, two: ast.expr | None) -> bool:
    """Whether the second bound is the first and one more; a lower bound that is left out is 0."""
    if two is None:
        return False
    first = _terms(one) if one is not None else {}
    second = _terms(two)
    if first is None or second is None:
        return False
    names = (first.keys() | second.keys()) - {""}
    moved = second.get("", 0) - first.get("", 0)
    return moved == 1 and all(first.get(name, 0) == second.get(name, 0) for name in names)


def _terms(node: ast.expr) -> dict[str, int] | None:
    """A sum as its terms by their code, the plain number under an empty name; None for what is no sum."""
    match node:
        case ast.Constant(value=int(number)):
            return {"": number}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _added({}, _terms(operand), -1)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _added(_terms(left), _terms(right), 1)
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            return _added(_terms(left), _terms(right), -1)
        case _:
            return {unparse(node): 1}


def _added(one: Mapping[str, int] | None, two: Mapping[str, int] | None, sign: int) -> dict[str, int] | None:
    if one is None or two is None:
        return None
    return {name: one.get(name, 0) + sign * two.get(name, 0) for name in one.keys() | two.keys()}


def shifts_labels(model: Value) -> bool:
    """Whether a model certainly moves its labels by one place itself: a causal head of transformers."""
    if not isinstance(model, Model) or model.task is not Task.CAUSAL_LM or model.framework != "torch":
        return False
    names = f"{model.path} {text_of(model.checkpoint) or ''}".lower()
    return model.path.startswith("transformers.") and not any(family in names for family in UNSHIFTED)


def tokens_of(call: ModelCall) -> Argument | None:
    """The token ids that a model was called on, by name or as its first argument."""
    return call.arguments.get("input_ids", call.arguments.get("0"))
