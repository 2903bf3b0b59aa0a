"""Samplers that get a weight for each class, where they expect one for each row: they only sample the first rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

PER_CLASS = frozenset({"bincount", "compute_class_weight"})
"""Functions that give one number for each class."""

KEEPS = frozenset(
    {"float", "double", "to", "cuda", "numpy", "astype", "tolist", "copy", "clone", "clamp", "cpu", "sqrt"}
)
CONVERTS = frozenset(
    {"tensor", "as_tensor", "from_numpy", "array", "asarray", "list", "FloatTensor", "DoubleTensor", "Tensor", "sqrt"}
    | {"float32", "power", "pow", "reciprocal"}
)
"""Methods and functions that give as many numbers as they get."""

MOST_CLASSES = 32
"""A list of more numbers may be one for each row."""

STEPS = 8


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """The weights of a sampler that are one for each class: where, their code, and where the classes are counted."""

    location: Location
    code: str
    counted: Location


def class_weights(source: Source) -> Iterator[ClassWeights]:
    """The weights of samplers that are weights of classes."""
    for call in calls_of(source, {"WeightedRandomSampler"}):
        named = {each.arg: each.value for each in call.keywords}
        given = call.args[0] if call.args else named.get("weights")
        counted = _of_classes(source, given, STEPS) if given is not None else None
        if given is not None and counted is not None:
            yield ClassWeights(source.location(given), unparse(given), source.location(counted))


def _of_classes(source: Source, node: ast.expr, steps: int) -> ast.expr | None:
    """The expression that counts the classes of which an expression has one number each; None if it is not known."""
    if steps == 0:
        return None
    match node:
        case ast.Name():
            made = list(loss_terms.definitions(source, node))
            if len(made) != 1 or made[0][2] is not None:
                return None
            value, position, _ = made[0]
            if position is None:
                return _of_classes(source, value, steps - 1)
            return value if _is_unique(value) and position > 0 else None
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult() | ast.Pow() | ast.Sub() | ast.Add(), right=right):
            return _of_classes(source, left, steps - 1) or _of_classes(source, right, steps - 1)
        case ast.Call(func=function) if last_name(function) in PER_CLASS:
            return node
        case ast.Call(func=function, args=[inner, *_]) if last_name(function) in CONVERTS:
            return _of_classes(source, inner, steps - 1)
        case ast.Call(func=ast.Attribute(value=ast.Call(func=counter), attr="values"), args=[]):
            return node if last_name(counter) == "Counter" else None
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _of_classes(source, inner, steps - 1)
        case ast.ListComp(generators=[ast.comprehension() as each]):
            return _of_items(source, node, each, steps)
        case ast.List(elts=numbers):
            are_numbers = all(isinstance(each, ast.Constant | ast.UnaryOp | ast.BinOp) for each in numbers)
            return node if are_numbers and 1 < len(numbers) <= MOST_CLASSES else None
        case _:
            return None


def _is_unique(value: ast.expr) -> bool:
    """Whether code counts the classes: `np.unique(labels, return_counts=True)`."""
    match value:
        case ast.Call(func=function, keywords=keywords) if last_name(function) == "unique":
            return {each.arg for each in keywords} & {"return_counts", "return_inverse"} == {"return_counts"}
        case _:
            return False


def _of_items(source: Source, node: ast.ListComp, each: ast.comprehension, steps: int) -> ast.expr | None:
    """The same of a list with an item for each class: of counts, of class numbers, or of what `unique` gives."""
    match each.iter:
        case ast.Call(func=function) if last_name(function) == "unique" and not _is_unique(each.iter):
            return each.iter
        case ast.Call(func=ast.Name(id="range"), args=[_]):
            pass
        case _:
            return _of_classes(source, each.iter, steps - 1) if not each.ifs else None
    held = [part.value for part in walk(node.elt) if isinstance(part, ast.Subscript) and _is_item(part, each.target)]
    return _of_classes(source, held[0], steps - 1) if len(held) == 1 else None


def _is_item(part: ast.Subscript, item: ast.expr) -> bool:
    return unparse(part.slice) == unparse(item)
