"""Axes of attention that a script computes itself: what its softmax adds up to one, and where its heads are.

`scores = q @ k.transpose(-2, -1)` has the queries on the last axis but one and the keys on the last. With
`(rows, tokens, heads, width)` moved to `(rows, heads, tokens, width)`, the result has to be moved back before the heads
are merged: `view` alone puts numbers of several tokens into one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.loss_terms import assigned
from lintrain.analysis.own_attention import attentions
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TURNS = lazy_pattern(r"transpose|permute|swapaxes|swapdims|movedim|moveaxis|einsum|rearrange|\.(?:T|mT)\b")
"""Code that moves axes."""

DIVIDED = lazy_pattern(r"/=?\s*\(?\w+\.sum\(|/=?\s*torch\.sum\(|F\.normalize\(")
"""Code that divides weights by their sum once more, as attention of slots does."""

READS_SCORES = lazy_pattern(r"[Ss]oftmax")
FUSED = "scaled_dot_product_attention"
VIEWS = frozenset({"view", "reshape"})
KEEPS = frozenset({"contiguous", "float", "to", "type_as", "half", "bfloat16", "clone", "type"})
"""Methods that leave the axes where they are."""


@dataclass(frozen=True, slots=True)
class WrongAxis:
    """A call with the wrong axes, and the location that shows which axes its tensor has."""

    location: Location
    shown: Location


def softmaxes_over_others(source: Source) -> Iterator[WrongAxis]:
    """The softmaxes whose weights add up to one over another axis than the keys, though they weight the values."""
    for function, product in source.cached(attentions):
        calls = [each for each in own_nodes(function) if isinstance(each, ast.Call) and _is_softmax(each)]
        axis = _axis_of(source, calls[0]) if len(calls) == 1 and _gets_scores(function, product, calls[0]) else None
        if axis is None or not _is_queries(axis, product, _views_of_four(function)):
            continue
        if not _are_turned(function, calls[0]) and not DIVIDED.search(unparse(function)):
            yield WrongAxis(source.location(calls[0]), source.location(product))


def _gets_scores(function: ast.FunctionDef, product: ast.expr, softmax: ast.Call) -> bool:
    """Whether a softmax gets the product of queries and keys, as it is or after operations that keep its axes."""
    scores = set[str]()
    for node in _assignments(function):
        if len(node.targets) == 1 and (product in walk(node.value) or _keeps_axes(node.value, scores)):
            scores.add(unparse(node.targets[0]))
    given = [_receiver(softmax), *softmax.args[:1], *(each.value for each in softmax.keywords)]
    return any(each is not None and (product in walk(each) or _keeps_axes(each, scores)) for each in given)


def _keeps_axes(value: ast.expr, scores: set[str]) -> bool:
    """Whether an expression is computed from the scores without a part of the network or a function of the file."""
    calls = (each.func for each in walk(value) if isinstance(each, ast.Call))
    own = any(isinstance(each, ast.Name) or unparse(each).startswith("self.") for each in calls)
    named = (each for each in walk(value) if isinstance(each, ast.Name | ast.Attribute))
    return not own and any(unparse(each) in scores for each in named)


def _is_softmax(call: ast.Call) -> bool:
    return last_name(call.func).endswith("softmax") and (bool(call.args) or _receiver(call) is not None)


def _receiver(call: ast.Call) -> ast.expr | None:
    """The tensor that `x.softmax(-1)` is called on."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_module = isinstance(owner, ast.Name) and owner.id in {"F", "torch", "nn", "self"}
    return None if owner is None or is_module or unparse(owner) == "torch.nn.functional" else owner


def _axis_of(source: Source, call: ast.Call) -> int | None:
    """The axis of a softmax, given to it or to the layer of that name."""
    if unparse(call.func).startswith("self."):
        made = assigned(source, unparse(call.func))
        built = made[0] if len(made) == 1 else None
        return _number(built, 0) if isinstance(built, ast.Call) and last_name(built.func) == "Softmax" else None
    return _number(call, 0 if _receiver(call) is not None else 1)


def _number(call: ast.Call, position: int) -> int | None:
    given = [each.value for each in call.keywords if each.arg in {"dim", "axis"}] or call.args[position : position + 1]
    try:
        value: object = ast.literal_eval(given[0]) if given else None
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _is_queries(axis: int, product: ast.expr, has_heads: bool) -> bool:
    """Whether an axis of the scores is that of the queries, or of the heads or rows before it."""
    swapped = [each.args for each in walk(product) if isinstance(each, ast.Call) and last_name(each.func) in SWAPS]
    axes = {each.value for given in swapped for each in given if isinstance(each, ast.Constant)}
    rank = 4 if has_heads or 3 in axes else 3 if axes == {1, 2} or _is_bmm(product) else 0
    return axis == -2 or 0 <= axis < rank - 1


SWAPS = frozenset({"transpose", "swapaxes"})


def _is_bmm(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "bmm"


def _are_turned(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether the weights change their axes before they weight the values, so that another axis may be right."""
    names = {unparse(node.targets[0]) for node in _assignments(function) if call in walk(node.value)}
    for node in own_nodes(function):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) | ast.Attribute(value=inner, attr=name):
                is_weights = unparse(inner) in names or inner is call
                if is_weights and TURNS.search(f".{name}"):
                    return True
            case _:
                pass
    return False


def _assignments(function: ast.FunctionDef) -> list[ast.Assign]:
    """The assignments of a function in the order of its code."""
    return sorted((each for each in own_nodes(function) if isinstance(each, ast.Assign)), key=lambda each: each.lineno)


def _views_of_four(function: ast.FunctionDef) -> bool:
    return any(len(_sizes(each)) == 4 for each in own_nodes(function) if isinstance(each, ast.Call))


def _sizes(call: ast.Call) -> Sequence[ast.expr]:
    """The sizes of a view; empty for any other call."""
    if last_name(call.func) not in VIEWS or not isinstance(call.func, ast.Attribute):
        return ()
    return call.args[0].elts if call.args and isinstance(call.args[0], ast.Tuple | ast.List) else call.args


def unmoved_heads(source: Source) -> Iterator[WrongAxis]:
    """The views that merge the heads of attention while the tokens are still the last axis but one."""
    if not source.contains(READS_SCORES) and FUSED not in source.text:
        return
    own = {id(function) for function, _ in source.cached(attentions)}
    for function in source.nodes_of(ast.FunctionDef):
        if id(function) not in own and not _calls_fused(function):
            continue
        heads, tokens = _moved_heads(function), _tokens_of(function)
        for call in own_nodes(function):
            sizes = list(map(unparse, _sizes(call))) if isinstance(call, ast.Call) else []
            if len(sizes) == 4 and isinstance(call, ast.Call) and tokens is not None:
                yield from _split_late(source, function, call, tokens)
            if len(sizes) == 3 and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                values = _values_weighted(function, call.func.value, call.lineno)
                split = heads.get(unparse(values)) if values is not None else None
                if split is not None and list(map(unparse, _sizes(split)[:2])) == sizes[:2]:
                    yield WrongAxis(source.location(call), source.location(split))


def _tokens_of(function: ast.FunctionDef) -> ast.Assign | None:
    """The assignment of the sizes of `(rows, tokens, width)`, if a function reads those of one tensor."""
    read = [each for each in _assignments(function) if isinstance(each.targets[0], ast.Tuple)]
    read = [each for each in read if unparse(each.value).endswith((".shape", ".size()"))]
    is_plain = len(read) == 1 and unparse(read[0].targets[0]).count(",") == 2
    return read[0] if is_plain else None


def _split_late(source: Source, function: ast.FunctionDef, call: ast.Call, tokens: ast.Assign) -> Iterator[WrongAxis]:
    """A view of `(rows, tokens, width)` as `(rows, heads, tokens, width)`, which moves no token."""
    names = [unparse(each) for each in getattr(tokens.targets[0], "elts", ())]
    sizes = [unparse(each) for each in _sizes(call)]
    if sizes[0] != names[0] or sizes[2] != names[1] or names[1] in (sizes[1], sizes[3]):
        return
    given = unparse(tokens.value).rpartition(".")[0]
    inner = call.func.value if isinstance(call.func, ast.Attribute) else call
    if isinstance(inner, ast.Name):
        made = [each.value for each in _assignments(function) if unparse(each.targets[0]) == inner.id]
        inner = made[0] if len(made) == 1 or (made and call in walk(made[-1]) and len(made) == 2) else inner
    if isinstance(inner, ast.Call) and [unparse(each) for each in inner.args] == [given]:
        built = assigned(source, unparse(inner.func))
        if len(built) == 1 and isinstance(built[0], ast.Call) and last_name(built[0].func) == "Linear":
            yield WrongAxis(source.location(call), source.location(tokens))


def _calls_fused(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Call) and last_name(each.func) == FUSED for each in own_nodes(function))


def _moved_heads(function: ast.FunctionDef) -> dict[str, ast.Call]:
    """The names that hold `(rows, heads, tokens, width)`, each with the view that splits the heads off."""
    found: dict[str, ast.Call] = {}
    for node in _assignments(function):
        pairs = [(node.targets[0], node.value)]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
        names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else [node.targets[0]]
        for name in names:
            found.pop(unparse(name), None)
        for name, value in pairs:
            if (split := _split(value)) is not None:
                found[unparse(name)] = split
    return found


def _split(value: ast.expr) -> ast.Call | None:
    """The view in `x.view(rows, tokens, heads, width).transpose(1, 2)`."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call() as view, attr="transpose" | "swapaxes"), args=given):
            is_moved = sorted(map(unparse, given)) == ["1", "2"]
        case ast.Call(func=ast.Attribute(value=ast.Call() as view, attr="permute"), args=given):
            is_moved = [unparse(each) for each in given] == ["0", "2", "1", "3"]
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=name)) if name in KEEPS:
            return _split(inner)
        case _:
            return None
    return view if is_moved and len(_sizes(view)) == 4 else None


def _values_weighted(function: ast.FunctionDef, node: ast.expr, line: int, steps: int = 6) -> ast.expr | None:
    """The values that a tensor is a weighted sum of, if no axis was moved since."""
    match node:
        case ast.BinOp(op=ast.MatMult(), right=values):
            return values
        case ast.Call(func=called, args=[_, values]) if last_name(called) == "matmul":
            return values
        case ast.Call(func=called, args=[_, _, values, *_]) if last_name(called) == FUSED:
            return values
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS and steps:
            return _values_weighted(function, inner, line, steps - 1)
        case ast.Name(id=name) if steps:
            before = [
                each for each in _assignments(function) if unparse(each.targets[0]) == name and each.lineno < line
            ]
            return _values_weighted(function, before[-1].value, before[-1].lineno, steps - 1) if before else None
        case _:
            return None
