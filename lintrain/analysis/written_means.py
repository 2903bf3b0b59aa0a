"""Losses that a script computes itself and that are means over the rows of a batch, as their code shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import nodes_of_kind
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

IS_LOSS = lazy_pattern(r"(?i)loss|criterion|objective|entropy")
OF_TORCH = lazy_pattern(r"^(?:F|(?:torch\.)?nn\.functional)\.(?:\w+_loss|(?:binary_)?cross_entropy\w*|kl_div)$")
"""Functions of torch whose result is a mean by default."""

SIZE_OF_BATCH = lazy_pattern(r"(?i)batch|size|shape|len\(|num|count|rows|samples|(?<![a-z])n(?![a-z])")

MOST_STEPS = 8
"""Names and operations between a result and the means that it is made of."""


def written_means(pipeline: Pipeline) -> Iterator[Location]:
    """Where loops of the script get such a loss: from a function of its own, or as `outputs.loss` of transformers."""
    source = pipeline.source
    if not source.contains(r"\+=|\+ ") or not source.contains(r"/"):
        return
    yield from map(source.location, _of_transformers(source))
    functions = pipeline.cached(_mean_functions, pipeline)
    for call in calls_of(source, functions) if functions else ():
        if isinstance(call.func, ast.Name):
            yield source.location(call)


def _mean_functions(pipeline: Pipeline, _: Pipeline) -> frozenset[str]:
    """The names of the functions of a script that only return means over rows, if no other function has the name."""
    functions = [each for each in nodes_of_kind(pipeline, ast.FunctionDef) if IS_LOSS.search(each.name)]
    names = [each.name for each in functions]
    return frozenset(each.name for each in functions if names.count(each.name) == 1 and _returns_mean(each))


def _returns_mean(function: ast.FunctionDef) -> bool:
    """Whether a function returns a mean in any case; a loop in it may go through the rows of a batch."""
    nodes = own_nodes(function)
    if any(isinstance(each, ast.For | ast.While | ast.Yield) for each in nodes):
        return False
    returned = [each.value for each in nodes if isinstance(each, ast.Return)]
    values = _values_in(nodes)
    return bool(returned) and all(each is not None and _is_mean(each, values) for each in returned)


def _values_in(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr | None]]:
    """What a function gives to each name, or adds to it; None for what is not known."""
    found: dict[str, list[ast.expr | None]] = {}
    known = set[int]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                found.setdefault(target.id, []).append(value)
                known.add(id(target))
            case ast.AugAssign(target=ast.Name() as target, op=ast.Add(), value=value):
                found.setdefault(target.id, []).append(value)
                known.add(id(target))
            case _:
                pass
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in known:
            found.setdefault(node.id, []).append(None)
    return found


def _is_mean(node: ast.expr, values: Mapping[str, list[ast.expr | None]], depth: int = 0) -> bool:
    """Whether an expression is a mean over rows, or a weighted sum of such means."""
    if depth > MOST_STEPS:
        return False
    match node:
        case ast.Call(func=ast.Attribute(attr="mean"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean"), args=[_], keywords=[]):
            return True
        case ast.Call(func=func, keywords=keywords) if OF_TORCH.search(unparse(func)):
            return all(_is_default(each) for each in keywords)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _is_mean(left, values, depth + 1) and _is_mean(right, values, depth + 1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = ((left, right), (right, left))
            return any(_is_weight(weight) and _is_mean(term, values, depth + 1) for term, weight in sides)
        case ast.UnaryOp(operand=inner):
            return _is_mean(inner, values, depth + 1)
        case ast.Name(id=name):
            given = [each for each in values.get(name, []) if not isinstance(each, ast.Constant)]
            return bool(given) and all(each is not None and _is_mean(each, values, depth + 1) for each in given)
        case _:
            return False


def _is_default(keyword: ast.keyword) -> bool:
    """Whether an argument of a loss leaves it a mean."""
    if keyword.arg == "reduction":
        return isinstance(keyword.value, ast.Constant) and keyword.value.value == "mean"
    return keyword.arg not in {None, "size_average", "reduce"}


def _is_weight(node: ast.expr) -> bool:
    is_plain = isinstance(node, ast.Constant | ast.Name | ast.Attribute)
    return is_plain and SIZE_OF_BATCH.search(unparse(node)) is None


def _of_transformers(source: Source) -> Iterator[ast.Attribute]:
    """`outputs.loss` of a model of transformers that is given labels, or a whole batch: a mean over tokens or rows."""
    if "transformers" not in source.text:
        return
    outputs = {
        node.targets[0].id
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.targets[0], ast.Name) and _is_given_labels(node.value)
    }
    for node in source.nodes_of(ast.Attribute) if outputs else ():
        if node.attr == "loss" and isinstance(node.value, ast.Name) and node.value.id in outputs:
            yield node


def _is_given_labels(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) not in {"model", "net", "student"}:
        return False
    return any(each.arg == "labels" for each in node.keywords)
