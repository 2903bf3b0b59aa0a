"""Loops: run once, with what happens in them marked as repeated."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import statement
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.interpreter.retention import made_anew
from lintrain.interpreter.targets import assign, assigned_names
from lintrain.model.location import Location
from lintrain.pipeline.events import Loop
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown


@statement(ast.For, ast.AsyncFor)
def execute_for(reader: Reader, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
    """`for`: its element bound to the target, its body run once."""
    over = dispatch.evaluate(reader, node.iter, scope)
    each = dispatch.element(reader, over)
    header = reader.code(reader.source.location(node.iter))
    loop = Loop(
        reader.source.location(node),
        over,
        each,
        header,
        _body_location(reader, node.body),
        reader.once(_made_anew, node),
    )
    _forget_changing(reader, node, scope)
    # Before the target is bound, so that without an iteration the target too is what it was.
    start = len(scope.journal)
    assign(reader, node.target, each, scope)
    return _execute_loop(reader, loop, node.body, node.orelse, scope, start)


@statement(ast.While)
def execute_while(reader: Reader, node: ast.While, scope: Scope) -> Flow:
    """`while`: its body run once, unless the test is certainly false."""
    _forget_changing(reader, node, scope)
    test = dispatch.evaluate(reader, node.test, scope)
    if operations.truth(test) is False:
        return dispatch.execute_block(reader, node.orelse, scope)
    header = reader.code(reader.source.location(node.test))
    loop = Loop(
        reader.source.location(node),
        UNKNOWN,
        UNKNOWN,
        header,
        _body_location(reader, node.body),
        reader.once(_made_anew, node),
    )
    return _execute_loop(reader, loop, node.body, node.orelse, scope, len(scope.journal))


def _body_location(reader: Reader, body: Sequence[ast.stmt]) -> Location:
    return reader.source.location(body[0])


def _execute_loop(
    reader: Reader,
    loop: Loop,
    body: Sequence[ast.stmt],
    orelse: Sequence[ast.stmt],
    scope: Scope,
    start: int,
) -> Flow:
    reader.record.loops.append(loop)
    reader.loops.append(loop)
    frame = reader.frame
    # Kept for the loop outside: `break` and `continue` belong to the innermost loop of the frame.
    outer, frame.exits, frame.loop_start = (frame.exits, frame.loop_start), [], start
    flow = dispatch.execute_block(reader, body, scope)
    exits = frame.exits
    frame.exits, frame.loop_start = outer
    reader.loops.pop()
    changes = reader.undo(scope, start)
    # Each `break` and `continue` left the body with other names. All of them are ways to leave the loop,
    # besides its end.
    ends = [*exits, changes] if flow is Flow.ON else exits
    # The body may run no time at all, so the names of before are one of the branches. The body is read once
    # and stands for all iterations: what the second iteration sees of the first is what `_forget_changing`
    # and rules about loops are for.
    scope.apply(scope.joined([_without_body(scope, ends), *ends]))
    return dispatch.execute_block(reader, orelse, scope)


def _without_body(scope: Scope, ends: Sequence[Changes]) -> Changes:
    """What a loop leaves that never runs: a body that bound a name over `None` is taken to have run."""
    # `best = None` before the loop and `best = model` in it: taken literally, every later use of `best`
    # might be None. People write this for loops that do run.
    bound = (name for end in ends for name, value in end.items() if value is not scope.names.get(name))
    return {
        name: None for name in bound if isinstance(value := scope.names.get(name), Constant) and value.value is None
    }


ForOrWhile = ast.For | ast.AsyncFor | ast.While


def _made_anew(node: ForOrWhile) -> frozenset[str]:
    return made_anew(node.body)


def _assigned(node: ForOrWhile) -> tuple[str, ...]:
    return tuple(assigned_names(node.body))


def _forget_changing(reader: Reader, node: ForOrWhile, scope: Scope) -> None:
    """A constant that the loop's body assigns is another one in each iteration."""
    for name in reader.once(_assigned, node):
        known = scope.names.get(name)
        # `step = 0` before `while`, `step += 1` inside: reading the body with 0 would decide `if step == 0`
        # for all iterations.
        if isinstance(known, Constant) and known.value is not None:
            scope.put(name, Unknown(name=name))
