"""Functions of a `LambdaLR` that return the optimizer's own rate times a factor, whatever number the rate is.

optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)
schedule = LambdaLR(optimizer, lambda step: args.lr * min(1.0, step / warmup))
"""

from __future__ import annotations

import ast

from lintrain.analysis import loss_terms
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import number_of
from lintrain.source import places
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source

STEPS = 3


def rate_in(pipeline: Pipeline, schedule: Scheduler) -> tuple[Location, str] | None:
    """Where the function of a schedule multiplies with the rate that its optimizer has, and the code of the rate."""
    optimizer, source = schedule.optimizer, pipeline.source
    if not isinstance(optimizer, Optimizer) or optimizer.has_groups or schedule.origin is None:
        return None
    call = places.call_at(source, schedule.origin)
    built = places.call_at(source, optimizer.origin) if optimizer.origin is not None else None
    if call is None or built is None or number_of(optimizer.learning_rate) == 1:
        return None
    rate = next((each.value for each in built.keywords if each.arg == "lr"), None)
    rate = rate if rate is not None else built.args[1] if len(built.args) > 1 else None
    if not isinstance(rate, ast.Name | ast.Attribute):
        return None
    found = [_factor(source, each, unparse(rate), STEPS) for each in _results(source, call, unparse(rate))]
    first = next((each for each in found if each is not None), None)
    return (source.location(first), unparse(rate)) if first is not None and None not in found else None


def _results(source: Source, call: ast.Call, rate: str) -> list[ast.expr]:
    """What the functions of a schedule return, but for zero; nothing if one has another meaning for the rate."""
    given = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "lr_lambda")]
    given = [one for each in given for one in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])]
    found = list[ast.expr]()
    for function in [_function(source, each) for each in given]:
        if function is None or rate.partition(".")[0] in _bound_in(function):
            return []
        if isinstance(function, ast.Lambda):
            found.append(function.body)
        else:
            returns = (each.value for each in own_nodes(function) if isinstance(each, ast.Return))
            found.extend(each for each in returns if each is not None)
    return [each for each in found if not isinstance(each, ast.Constant) or each.value != 0]


def _function(source: Source, node: ast.expr) -> ast.Lambda | ast.FunctionDef | None:
    """The only function that a name of a file stands for, or a lambda itself."""
    match node:
        case ast.Lambda():
            return node
        case ast.Name(id=name) | ast.Attribute(attr=name):
            found = [each for each in source.nodes_of(ast.FunctionDef) if each.name == name]
            made = loss_terms.assigned(source, unparse(node))
            if len(found) + len(made) != 1:
                return None
            return found[0] if found else made[0] if isinstance(made[0], ast.Lambda) else None
        case _:
            return None


def _bound_in(function: ast.Lambda | ast.FunctionDef) -> set[str]:
    """The names that mean something of its own in a function, except for the object that a method belongs to."""
    stored = {each.id for each in walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return stored | {each.arg for each in function.args.args} - {"self"}


def _factor(source: Source, node: ast.expr, rate: str, steps: int) -> ast.expr | None:
    """The factor of a result that is the rate, which no division takes away again."""
    if isinstance(node, ast.Name | ast.Attribute) and unparse(node) == rate:
        return node
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _factor(source, left, rate, steps) or _factor(source, right, rate, steps)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if "lr" not in unparse(right) and rate not in unparse(
            right
        ):
            return _factor(source, left, rate, steps)
        case ast.IfExp(body=body, orelse=other):
            found = _factor(source, body, rate, steps)
            return found if _factor(source, other, rate, steps) is not None else None
        case ast.Call(func=ast.Name(id="max" | "min" | "float" as name), args=[*given]):
            # The rate alone may be the least share by chance: `max(LR, share)`.
            given = [each for each in given if name == "float" or unparse(each) != rate]
            return next(filter(None, (_factor(source, each, rate, steps) for each in given)), None)
        case ast.Name() if steps:
            made = [each for each, *rest in loss_terms.definitions(source, node) if rest == [None, None]]
            return _factor(source, made[0], rate, steps - 1) if len(made) == 1 else None
        case _:
            return None
