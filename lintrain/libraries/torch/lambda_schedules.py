"""Schedules that a function of the script computes: `LambdaLR(optimizer, lambda step: min(1, step / warmup))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import FACTORS_AT
from lintrain.pipeline.values.python import Constant, Function, number_of, options_of
from lintrain.pipeline.values.tensors import Count
from lintrain.source.nodes import walk

MOST_NAMES = 8


def factors(call: Call) -> tuple[float, ...]:
    """What the function of a `LambdaLR` returns at some epochs, as its call asks it; empty if one is unknown."""
    function, found = call.value("lr_lambda", 1), list[float]()
    for epoch in FACTORS_AT if isinstance(function, Function) else ():
        factor = number_of(dispatch.call(call.reader, function, [Constant(epoch)], location=call.location))
        if factor is None:
            return ()
        found.append(factor)
    return tuple(found)


def horizon(call: Call) -> Argument | None:
    """The number of batches that the function of a `LambdaLR` compares its steps with, or divides them by."""
    function, argument = call.value("lr_lambda", 1), call.named("optimizer", "lr_lambda").get("lr_lambda")
    if argument is None or not isinstance(function, Function) or not function.node.args.args:
        return None
    parameter = function.node.args.args[0].arg
    scope = Scope.inside(function.scope)
    local = {each.id for each in walk(function.node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for name in list(_limits(function.node, parameter))[:MOST_NAMES]:
        # What the function computes itself depends on its step: only names from outside have one value.
        if isinstance(name, ast.Name) and name.id in local | {parameter}:
            continue
        value = dispatch.evaluate(call.reader, name, scope)
        # A number that is no count of batches, such as a warm-up of 500, does not say what the steps are.
        if all(isinstance(each, Count) for each in options_of(value)):
            return Argument(value, argument.location, argument.source)
    return None


def _limits(node: ast.AST, parameter: str) -> Iterator[ast.expr]:
    """The names that a function compares its parameter with, or divides it by."""
    for each in walk(node):
        match each:
            case ast.Compare(left=step, comparators=[limit]) | ast.BinOp(left=step, op=ast.Div(), right=limit):
                if any(isinstance(part, ast.Name) and part.id == parameter for part in walk(step)):
                    yield from (part for part in walk(limit) if isinstance(part, ast.Name | ast.Attribute))
            case _:
                pass
