"""Schedules that a function of the script computes: `LambdaLR(optimizer, lambda step: min(1, step / warmup))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import FACTORS_AT
from lintrain.pipeline.values.python import Constant, Function, Value, number_of, options_of
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


def rate_in(call: Call, rate: Value) -> Argument | None:
    """The rate of the optimizer, if all that the function of a `LambdaLR` returns is multiplied with it."""
    function, argument = call.value("lr_lambda", 1), call.named("optimizer", "lr_lambda").get("lr_lambda")
    number = number_of(rate)
    if argument is None or number is None or not isinstance(function, Function):
        return None
    node = function.node
    own = {each.arg for each in walk(node) if isinstance(each, ast.arg)}
    # A parameter or a name of the function's own may hide the rate, and be another number.
    own |= {each.id for each in walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    results = (
        [node.body] if isinstance(node, ast.Lambda) else [x.value for x in walk(node) if isinstance(x, ast.Return)]
    )
    scope = Scope.inside(function.scope)

    def is_rate(factor: ast.expr) -> bool:
        is_plain = isinstance(factor, ast.Name | ast.Attribute) and not own & {*_names(factor)}
        return is_plain and number_of(dispatch.evaluate(call.reader, factor, scope)) == number

    def has_rate(result: ast.expr | None) -> bool:
        factors, divisors = list[ast.expr](), list[ast.expr]()
        if result is not None:
            _sort_factors(result, factors, divisors)
        # What is divided by the rate again is a factor after all.
        divided = (part for each in divisors for part in walk(each) if isinstance(part, ast.expr))
        return any(map(is_rate, factors)) and not any(map(is_rate, divided))

    found = [has_rate(each) for each in results[:MOST_NAMES]]
    return Argument(rate, argument.location, argument.source) if found and all(found) else None


def _sort_factors(node: ast.expr, factors: list[ast.expr], divisors: list[ast.expr]) -> None:
    """Collect what an expression multiplies, and what it divides by."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            _sort_factors(left, factors, divisors)
            _sort_factors(right, factors, divisors)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            _sort_factors(left, factors, divisors)
            divisors.append(right)
        case _:
            factors.append(node)


def _names(node: ast.expr) -> Iterator[str]:
    yield from (each.id for each in walk(node) if isinstance(each, ast.Name))


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
