"""Gradient penalties, and how many axes a tensor has at least, as far as its code shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PENALTY = lazy_pattern(r"\bgrad\(")
KEEPS_AXES = frozenset(
    {"cuda", "to", "cpu", "type", "type_as", "float", "double", "half", "contiguous", "detach", "clone"}
    | {"requires_grad_", "clamp", "abs", "uniform_", "normal_"}
)
"""Methods whose result has the axes of the tensor that they are called on."""

WRAPS = frozenset({"Variable", "new_tensor", "as_tensor"})
"""Functions whose result has the axes of the tensor that they get."""

GIVES_AXES = frozenset(
    {"view", "reshape", "expand", "rand", "randn", "empty", "zeros", "ones", "FloatTensor", "Tensor"}
)
"""Those that get the sizes of all axes."""

MOST_STEPS = 10


@dataclass(frozen=True, slots=True)
class WrongNorm:
    """A norm over one axis of the gradients of inputs that have more than two, and where the gradients are computed."""

    location: Location
    gradients: Location
    text: str


def unflattened(source: Source) -> Iterator[WrongNorm]:
    """The gradient penalties of a file that take the norm of each pixel and not of each image."""
    if not source.contains(PENALTY):
        return
    for call in source.nodes_of(ast.Call):
        normed = _normed(call)
        made = _gradients(source, normed, MOST_STEPS) if normed is not None else None
        if normed is None or made is None:
            continue
        inputs = {each.arg: each.value for each in made.keywords}.get("inputs", made.args[1] if made.args[1:] else None)
        if inputs is not None and _axes(source, inputs, MOST_STEPS) > 2:
            yield WrongNorm(source.location(call), source.location(made), unparse(normed))


def _normed(call: ast.Call) -> ast.expr | None:
    """The tensor of which a call takes the norm over dimension 1 alone."""
    name, given = last_name(call.func), list(call.args)
    if name not in {"norm", "vector_norm"} or not isinstance(call.func, ast.Attribute):
        return None
    is_function = unparse(call.func.value) in {"torch", "torch.linalg", "linalg", "LA"}
    tensor = given.pop(0) if is_function and given else None if is_function else call.func.value
    named = {each.arg: each.value for each in call.keywords}
    axis = named.get("dim", given[1] if len(given) > 1 else None)
    match axis:
        case ast.Constant(value=1) | ast.Tuple(elts=[ast.Constant(value=1)]) | ast.List(elts=[ast.Constant(value=1)]):
            return tensor
        case _:
            return None


def _gradients(source: Source, node: ast.expr, steps: int) -> ast.Call | None:
    """The call of `autograd.grad` whose first result an expression is, with its axes."""
    match node:
        case ast.Call(func=function) if last_name(function) == "grad" and "autograd" in unparse(function):
            return node
        case ast.Subscript(value=inner, slice=ast.Constant(value=0)):
            made = _gradients(source, inner, steps)
            return made if made is None or not isinstance(inner, ast.Name) or _is_call(source, inner) else None
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return _gradients(source, left, steps) or _gradients(source, right, steps)
        case ast.Name() if steps:
            value = _latest(source, node)
            return _gradients(source, value, steps - 1) if value is not None else None
        case _:
            return None


def _is_call(source: Source, name: ast.Name) -> bool:
    """Whether a name holds the tuple that `autograd.grad` returns: `[0]` of it is a tensor, and not a row."""
    return isinstance(_latest(source, name), ast.Call)


def _latest(source: Source, name: ast.Name) -> ast.expr | None:
    """What a name was given last before an expression, if it got all of it and nothing was added."""
    found = next(iter(loss_terms.definitions(source, name)), None)
    if found is None or found[1] not in {None, 0}:
        return None
    return found[0] if found[2] is None or isinstance(found[2], ast.Mult) else None


def _axes(source: Source, node: ast.expr, steps: int) -> int:
    """How many axes a tensor has at least: a product or sum has those of the part with more."""
    match node:
        case ast.Name() if steps:
            value = _latest(source, node)
            return _axes(source, value, steps - 1) if value is not None else 0
        case ast.BinOp(left=left, right=right):
            return max(_axes(source, left, steps), _axes(source, right, steps))
        case ast.IfExp(body=first, orelse=second):
            return min(_axes(source, first, steps), _axes(source, second, steps))
        case ast.Subscript(slice=ast.Tuple(elts=indices)):
            is_new = any(isinstance(each, ast.Constant) and each.value is None for each in indices)
            kept = [each for each in indices if isinstance(each, ast.Slice | ast.Constant)]
            return len(kept) if is_new and len(kept) == len(indices) else 0
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return _axes(source, first, steps)
        case ast.Call():
            return _axes_of_call(source, node, steps)
        case _:
            return 0


def _axes_of_call(source: Source, call: ast.Call, steps: int) -> int:
    name = last_name(call.func)
    if name in GIVES_AXES:
        sizes = call.args
        if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
            sizes = sizes[0].elts
        return 0 if any(isinstance(each, ast.Starred) for each in sizes) else len(sizes)
    if name == "unsqueeze" and isinstance(call.func, ast.Attribute):
        inner = _axes(source, call.func.value, steps)
        return inner + 1 if inner else 0
    if name in WRAPS and call.args:
        return _axes(source, call.args[0], steps)
    if name in KEEPS_AXES and isinstance(call.func, ast.Attribute):
        return _axes(source, call.func.value, steps)
    return 0
