"""Loops: run once, with what happens in them marked as repeated."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline import expressions, operations, statements
from lintrain.pipeline.events import Loop
from lintrain.pipeline.flow import Flow
from lintrain.pipeline.retention import made_anew
from lintrain.pipeline.scope import Scope, joined
from lintrain.pipeline.targets import assign, assigned_names
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


def execute_for(reader: Reader, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
    """`for`: its element bound to the target, its body run once."""
    over = expressions.evaluate(reader, node.iter, scope)
    each = operations.element(reader, over)
    header = reader.code(reader.source.place(node.iter))
    loop = Loop(
        reader.source.place(node), over, each, header, _body_place(reader, node.body), reader.once(_made_anew, node)
    )
    _forget_changing(reader, node, scope)
    before, start = reader.names_of(scope), len(scope.journal)
    assign(reader, node.target, each, scope)
    return _execute_loop(reader, loop, node.body, node.orelse, scope, before, start)


def execute_while(reader: Reader, node: ast.While, scope: Scope) -> Flow:
    """`while`: its body run once, unless the test is certainly false."""
    _forget_changing(reader, node, scope)
    test = expressions.evaluate(reader, node.test, scope)
    if operations.truth(test) is False:
        return statements.execute_block(reader, node.orelse, scope)
    header = reader.code(reader.source.place(node.test))
    loop = Loop(
        reader.source.place(node),
        UNKNOWN,
        UNKNOWN,
        header,
        _body_place(reader, node.body),
        reader.once(_made_anew, node),
    )
    return _execute_loop(reader, loop, node.body, node.orelse, scope, reader.names_of(scope), len(scope.journal))


def _body_place(reader: Reader, body: Sequence[ast.stmt]) -> Place:
    return reader.source.place(body[0])


def _execute_loop(
    reader: Reader,
    loop: Loop,
    body: Sequence[ast.stmt],
    orelse: Sequence[ast.stmt],
    scope: Scope,
    before: dict[str, Value],
    start: int,
) -> Flow:
    reader.record.loops.append(loop)
    reader.loops.append(loop)
    outer_exits, reader.frame.exits = reader.frame.exits, []
    flow = statements.execute_block(reader, body, scope)
    exits, reader.frame.exits = reader.frame.exits, outer_exits
    reader.loops.pop()
    ends = [before, *exits]
    if flow is Flow.ON:
        ends.append(scope.names)
    scope.names = _after_loop(ends, scope.bound_since(start))
    return statements.execute_block(reader, orelse, scope)


def _after_loop(ends: list[dict[str, Value]], bound: Iterable[str]) -> dict[str, Value]:
    """The names after a loop: a body that bound a name over `None` is taken to have run."""
    for name in bound:
        value = ends[0].get(name)
        if isinstance(value, Constant) and value.value is None and any(end.get(name) is not value for end in ends[1:]):
            del ends[0][name]
    return joined(ends, bound)


ForOrWhile = ast.For | ast.AsyncFor | ast.While


def _made_anew(node: ForOrWhile) -> frozenset[str]:
    return made_anew(node.body)


def _assigned(node: ForOrWhile) -> tuple[str, ...]:
    return tuple(assigned_names(node.body))


def _forget_changing(reader: Reader, node: ForOrWhile, scope: Scope) -> None:
    """A constant that the loop's body assigns is another one in each iteration."""
    for name in reader.once(_assigned, node):
        known = scope.names.get(name)
        if isinstance(known, Constant) and known.value is not None:
            scope.put(name, Unknown(name=name))
