"""Lightning: losses that a `training_step` returns without their graph, whatever computed them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.lightning_steps import own_steps
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class
from lintrain.source.nodes import own_nodes

CUTS = frozenset({"detach", "item", "tolist", "numpy"})
"""Methods of a tensor whose result has no graph."""

KEEPS = frozenset({"cpu", "cuda", "to", "mean", "sum", "float", "double", "clone", "squeeze"})
"""Methods of a tensor whose result has a graph if the tensor has one."""

TAKE_OVER = ("backward", "training_step_end", "on_before_backward")
"""Methods of a module that may give the loss a graph after the step, or do without one."""


def cut_returns(pipeline: Pipeline) -> Iterator[tuple[Location, str]]:
    """The code that takes the loss off the graph in steps whose every return does so, and the method's name."""
    for source, method, cls in own_steps(pipeline):
        returned = [node.value for node in own_nodes(method) if isinstance(node, ast.Return)]
        losses = [_loss_in(value) for value in returned if value is not None and not _is_none(value)]
        cuts = [_cut_in(_bound(method, loss)) for loss in losses]
        if not cuts or None in cuts or _takes_over(cls):
            continue
        for cut in cuts:
            if cut is not None:
                yield source.location(cut), _name_of(cut)


def _takes_over(cls: Class) -> bool:
    return any(cls.lookup(name) is not None for name in TAKE_OVER)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _loss_in(value: ast.expr) -> ast.expr:
    """What Lightning takes for the loss: the value under `loss` of a dictionary, else the value itself."""
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        under = [each for key, each in pairs if isinstance(key, ast.Constant) and key.value == "loss"]
        return under[-1] if under else value
    return value


def _bound(method: ast.FunctionDef, loss: ast.expr) -> ast.expr:
    """What a name is certainly bound to where it is returned: its last assignment, if that is under no condition."""
    if not isinstance(loss, ast.Name):
        return loss
    stored = [node for node in own_nodes(method) if isinstance(node, ast.Name) and node.id == loss.id]
    last = max((node.lineno for node in stored if isinstance(node.ctx, ast.Store)), default=0)
    for statement in method.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == loss.id and statement.lineno == last:
                return value
            case _:
                pass
    return loss


def _cut_in(value: ast.expr) -> ast.expr | None:
    """The call that takes a value off the graph, if nothing adds one again."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            if name in CUTS:
                return value
            return _cut_in(inner) if name in KEEPS else None
        case ast.Call(func=ast.Name(id="float"), args=[_]):
            return value
        case _:
            return None


def _name_of(cut: ast.expr) -> str:
    match cut:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name
        case _:
            return ""
