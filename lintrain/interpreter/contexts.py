"""`with`: what its managers bind, and what they do before and after its body."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from lintrain.interpreter import invocation, objects, project_modules
from lintrain.interpreter.autograd import turns_grad_off
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import statement
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.invocation import ContextCall
from lintrain.interpreter.targets import assign
from lintrain.pipeline.values.files import OpenFile
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Instance,
    LibraryObject,
    Value,
)


@statement(ast.With, ast.AsyncWith)
def execute_with(reader: Reader, node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
    """`with a as b, c as d:`."""
    return _enter(reader, node.items, node.body, scope)


def _enter(reader: Reader, items: Sequence[ast.withitem], body: Sequence[ast.stmt], scope: Scope) -> Flow:
    if not items:
        return dispatch.execute_block(reader, body, scope)
    # One manager at a time, the others inside it: `with a as x, b(x) as y` reads `b` with `x` bound.
    item, *others = items
    manager = dispatch.evaluate(reader, item.context_expr, scope)

    def inside(entered: Value) -> Flow:
        if item.optional_vars is not None:
            assign(reader, item.optional_vars, entered, scope)
        return _enter(reader, others, body, scope)

    if isinstance(manager, ContextCall):
        return _run_around(reader, manager, inside)
    turns_off = turns_grad_off(manager)
    # Counted up before the body and down after it, so that nested managers leave the state of the outer
    # one.
    reader.without_grad += turns_off
    flow = inside(_entered(reader, manager, item))
    _leave(reader, manager, item)
    reader.without_grad -= turns_off
    return flow


def _run_around(reader: Reader, manager: ContextCall, inside: Callable[[Value], Flow]) -> Flow:
    """Run the function of a context manager, with the body of the `with` where it yields."""
    flows: list[Flow] = []
    outer = reader.frame

    def at_yield(value: Value) -> None:
        # Only the first yield runs the body: a second one is a RuntimeError of contextlib.
        if not flows:
            flows.append(Flow.ON)
            with project_modules.Inside(reader, outer):
                flows[0] = inside(value)

    call = manager.call
    invocation.run_function(call, manager.function, manager.receiver, manager.owner, at_yield)
    # The budget of depth may end the manager before its yield. The body of the `with` is the script's own
    # and is read.
    return flows[0] if flows else inside(UNKNOWN)


def _entered(reader: Reader, manager: Value, item: ast.withitem) -> Value:
    """What `with manager as name` binds."""
    match manager:
        case Instance():
            given = objects.special(reader, manager, "__enter__", [], reader.source.location(item.context_expr))
            return manager if given is None else given
        case LibraryObject(path="contextlib.nullcontext"):
            return manager.arguments.get("0", manager.arguments.get("enter_result", Constant(None)))
        case _:
            return manager if isinstance(manager, LibraryObject | OpenFile) else UNKNOWN


def _leave(reader: Reader, manager: Value, item: ast.withitem) -> None:
    if isinstance(manager, Instance):
        nothing: list[Value] = [Constant(None)] * 3
        objects.special(reader, manager, "__exit__", nothing, reader.source.location(item.context_expr))
