"""Contrastive losses whose scores are multiplied by the temperature, not divided by it.

The scores of unit vectors are cosines, from -1 to 1. A temperature below 1 is to spread them; as a factor it moves them
closer together, until a softmax over them is nearly even, whatever the vectors are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import contrasts, given_numbers, loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CANDIDATES = lazy_pattern(r"cross_entropy\(|CrossEntropyLoss|log_softmax\(|logsumexp\(|\bexp\(")
COSINES = frozenset({"cosine_similarity", "CosineSimilarity"})
SOFTMAXES = frozenset({"softmax", "log_softmax", "logsumexp", "exp"})

HIGHEST = 0.5
"""The highest factor that is certainly a temperature: scores are seldom halved on purpose."""

STEPS = 8


@dataclass(frozen=True, slots=True)
class Multiplied:
    """A product of cosines and a temperature: where, the code of the temperature, and its number if it is known."""

    location: Location
    temperature: str
    number: float | None


def multiplied(source: Source) -> Iterator[Multiplied]:
    """The scores of a file that a softmax compares, and that are cosines times a number that is well below 1."""
    if not source.contains(CANDIDATES):
        return
    for call in source.nodes_of(ast.Call):
        scores = _scores_in(source, call)
        found = _product(source, scores, STEPS) if scores is not None else None
        if found is not None:
            yield found


def _scores_in(source: Source, call: ast.Call) -> ast.expr | None:
    """The scores that a call compares with each other: in a cross-entropy, a softmax, or a sum of exponentials."""
    if len(call.args) > 1 and contrasts.is_cross_entropy(source, call.func):
        return call.args[0]
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "F" | "th"), attr=name), args=[scores, *_]):
            return scores if name in SOFTMAXES else None
        case ast.Call(func=ast.Attribute(value=scores, attr=name)) if name in SOFTMAXES:
            return scores
        case _:
            return None


def _product(source: Source, node: ast.expr, steps: int) -> Multiplied | None:
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for scores, factor in ((left, right), (right, left)):
                number = given_numbers.number_of(source, factor)
                is_named = _is_temperature(source, factor)
                is_low = 0 < number <= HIGHEST if number is not None else is_named
                if is_low and (_are_cosines(source, scores, STEPS) or (is_named and _are_products(scores))):
                    return Multiplied(source.location(node), unparse(factor), number)
            return None
        case ast.Name() if steps:
            made = _made(source, node)
            return _product(source, made, steps - 1) if made is not None else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="cat" | "stack"), args=[parts, *_]):
            each = parts.elts if isinstance(parts, ast.List | ast.Tuple) else []
            return next((found for one in each if (found := _product(source, one, steps - 1)) is not None), None)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="diag"), args=[inner, *_]):
            return _product(source, inner, steps)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _product(source, inner, steps)
        case ast.Subscript(value=inner):
            return _product(source, inner, steps)
        case _:
            return None


KEEPS = frozenset({"masked_fill", "float", "contiguous", "reshape", "view", "clone", "t"})
"""Methods whose result still has the scores."""


def _are_products(scores: ast.expr) -> bool:
    """Whether scores are those of all rows with all rows; a temperature divides them, whatever their length."""
    if contrasts.pair_of_rows(scores) is not None:
        return True
    return isinstance(scores, ast.Call) and "similarity" in last_name(scores.func)


def _is_temperature(source: Source, factor: ast.expr) -> bool:
    """Whether a factor is a temperature by its name, and not a weight that is learned."""
    if TEMPERATURE.fullmatch(last_name(factor)) is None:
        return False
    numbers = given_numbers.given_numbers(source).get(last_name(factor), set())
    if any(number is not None and number > 1 for number in numbers):
        return False  # one of 20 is a scale
    given = loss_terms.assigned(source, unparse(factor))
    return all(isinstance(each, ast.Name | ast.Attribute | ast.Subscript | ast.Constant) for each in given)


TEMPERATURE = lazy_pattern(r"(?i)temperature|tau|\w+_temperature")


def _made(source: Source, name: ast.Name) -> ast.expr | None:
    """The only value that a name was given before it is used, or the last one of those that are made of each other."""
    made = list(loss_terms.definitions(source, name))
    if not made or made[0][1] is not None or made[0][2] is not None:
        return None
    return made[0][0] if len(made) == 1 or name.id in loss_terms.names(made[0][0]) else None


def _are_cosines(source: Source, node: ast.expr, steps: int) -> bool:
    """Whether scores are the products of unit vectors with each other."""
    if isinstance(node, ast.Name) and steps:
        made = _made(source, node)
        return made is not None and _are_cosines(source, made, steps - 1)
    pair = contrasts.pair_of_rows(node)
    if pair is not None:
        return all(_is_unit(source, each, STEPS) for each in pair)
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return False
    objects = loss_terms.assigned(source, unparse(node.func))
    is_one = bool(objects) and all(isinstance(each, ast.Call) and last_name(each.func) in COSINES for each in objects)
    return is_one or last_name(node.func) in COSINES


def _is_unit(source: Source, node: ast.expr, steps: int) -> bool:
    """Whether rows certainly have a length of 1."""
    match node:
        case ast.Call(func=function) if last_name(function) == "normalize":
            return True
        case ast.BinOp(op=ast.Div(), right=length):
            return any(isinstance(each, ast.Call) and last_name(each.func) == "norm" for each in walk(length))
        case ast.Name() if steps:
            made = next(iter(loss_terms.definitions(source, node)), None)
            if made is not None:
                return made[1] is None and made[2] is None and _is_unit(source, made[0], steps - 1)
            given = list(contrasts.given_for(source, node))
            return bool(given) and all(_is_unit(source, each, steps - 1) for each in given)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="cat"), args=[parts, *_]):
            each = parts.elts if isinstance(parts, ast.List | ast.Tuple) else []
            return bool(each) and all(_is_unit(source, one, steps - 1) for one in each)
        case _:
            return False
