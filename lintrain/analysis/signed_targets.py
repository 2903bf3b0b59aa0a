"""Losses whose targets are 1 and -1, and targets that are certainly 0 and 1.

A target of 0 is none of the two: it leaves a row out of some of these losses, and makes a constant of others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CLASSES = {"CosineEmbeddingLoss": 2, "MarginRankingLoss": 2, "HingeEmbeddingLoss": 1, "SoftMarginLoss": 1}
FUNCTIONS = {"cosine_embedding_loss": 2, "margin_ranking_loss": 2, "hinge_embedding_loss": 1, "soft_margin_loss": 1}
"""The losses, with the number of the argument that is the target."""

NAMED = lazy_pattern(
    r"CosineEmbedding|MarginRanking|HingeEmbedding|SoftMarginLoss|cosine_emb|margin_rank|hinge_emb|soft_margin"
)

KEEPS = frozenset({"float", "long", "int", "to", "cuda", "view", "reshape", "squeeze", "unsqueeze", "type", "flatten"})
BUILDS = frozenset({"tensor", "as_tensor", "FloatTensor", "Tensor", "LongTensor", "float", "int", "array", "float32"})


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A loss that gets targets of 0 and 1: where, its name, and where the targets are made."""

    location: Location
    loss: str
    made: Location


def unsigned(source: Source) -> Iterator[Unsigned]:
    """The losses of a file for targets of 1 and -1 that certainly get 0."""
    if not source.contains(NAMED):
        return
    made = {
        unparse(node.targets[0]): name
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and (name := last_name(node.value.func)) in CLASSES
    }
    for call in source.nodes_of(ast.Call):
        loss = made.get(unparse(call.func)) or _built_and_called(call) or last_name(call.func)
        position = CLASSES.get(loss) if loss != last_name(call.func) else FUNCTIONS.get(loss)
        if position is None:
            continue
        given = [each.value for each in call.keywords if each.arg == "target"] or call.args[position : position + 1]
        zero = _zeros_in(source, given[0], 6) if given else None
        if zero is not None:
            yield Unsigned(source.location(call), loss, source.location(zero))


def _built_and_called(call: ast.Call) -> str:
    name = last_name(call.func.func) if isinstance(call.func, ast.Call) else ""
    return name if name in CLASSES else ""


def _zeros_in(source: Source, node: ast.expr, steps: int) -> ast.expr | None:
    """The expression that makes targets of 0, or of 0 and 1; None unless it certainly does."""
    match node:
        case ast.Compare() | ast.BoolOp():
            return node
        case ast.IfExp(body=ast.Constant(value=one), orelse=ast.Constant(value=other)):
            return node if {one, other} == {0, 1} else None
        case ast.List(elts=items) if items and all(isinstance(each, ast.Constant) for each in items):
            numbers = {each.value for each in items if isinstance(each, ast.Constant)}
            return node if 0 in numbers and numbers <= {0, 1} else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "np"), attr="zeros" | "zeros_like")):
            return node
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner, *_]) if name in BUILDS:
            return _zeros_in(source, inner, steps)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _zeros_in(source, inner, steps)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, node))
            if len(made) == 1 and made[0][1] is None and made[0][2] is None:
                return _zeros_in(source, made[0][0], steps - 1)
            item = _item_of_row(source, node) if not made else None
            return _zeros_in(source, item, steps - 1) if item is not None else None
        case _:
            return None


def _item_of_row(source: Source, name: ast.Name) -> ast.expr | None:
    """The part of a row that a loop over batches gives a name, if the file has one data set of such rows."""
    for loop in source.nodes_of(ast.For):
        target = loop.target
        if isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Tuple) and len(target.elts) == 2:
            target = target.elts[-1]
        if not isinstance(target, ast.Tuple) or not any(each is name for each in walk(loop)):
            continue
        names = [unparse(each) for each in target.elts]
        rows = _rows(source)
        if name.id in names and len(rows) == 1 and len(rows[0].elts) == len(names):
            return rows[0].elts[names.index(name.id)]
    return None


def _rows(source: Source) -> list[ast.Tuple]:
    """The tuples that the data sets of a file return."""
    functions = [each for each in source.nodes_of(ast.FunctionDef) if each.name == "__getitem__"]
    returned = [each.value for one in functions for each in own_nodes(one) if isinstance(each, ast.Return)]
    return [each for each in returned if isinstance(each, ast.Tuple)] if len(returned) == 1 else []
