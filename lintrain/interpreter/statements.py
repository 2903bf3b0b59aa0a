"""Statements: what executing them does to names, to the record, and to where execution goes on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lintrain.interpreter import (
    branches,
    contexts,
    decorators,
    expressions,
    functions,
    imports,
    loops,
    patterns,
    retention,
)
from lintrain.interpreter.flow import Flow
from lintrain.interpreter.scope import Scope
from lintrain.interpreter.targets import assign
from lintrain.pipeline.events import Act, Condition
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Library,
    Mapping,
    Unknown,
    Value,
)
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.source.nodes import statements as all_statements
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader

SPEAKS_OF_GRAD = lazy_pattern(r"grad|eval|infer")


def execute_block(reader: Reader, body: Sequence[ast.stmt], scope: Scope) -> Flow:
    """Run statements in order until one leaves the block.

    What follows an `if` that leaves on one side only is itself conditional.
    """
    for position, statement in enumerate(body):
        flow = execute(reader, statement, scope)
        if flow is not Flow.ON:
            return flow
        if (
            isinstance(statement, ast.If | ast.Try)
            and reader.once(_may_leave, statement)
            and not _is_settled(reader, statement)
        ):
            with reader.condition(reader.source.location(statement)):
                return execute_block(reader, body[position + 1 :], scope)
        if isinstance(statement, ast.If) and reader.once(_refuses_versions, statement):
            reader.guards += 1
            flow = execute_block(reader, body[position + 1 :], scope)
            reader.guards -= 1
            return flow
    return Flow.ON


def _refuses_versions(statement: ast.If) -> bool:
    """Whether an `if` raises on some versions of a library: what follows is written for the others."""
    if not any(isinstance(node, ast.Raise) for node in all_statements([statement])):
        return False
    test = ast.unparse(statement.test)
    return any(word in test for word in ("__version__", "version.parse", "Version("))


def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return | ast.Continue | ast.Break) for node in all_statements([statement]))


def _is_settled(reader: Reader, statement: ast.If | ast.Try) -> bool:
    """Whether an `if` was certain to go one way; a `try` never is."""
    return statement in reader.settled


def execute(reader: Reader, statement: ast.stmt, scope: Scope) -> Flow:
    """Run one statement."""
    reader.spend()
    handler = HANDLERS.get(type(statement))
    return handler(reader, statement, scope) if handler else Flow.ON


def _expression(reader: Reader, node: ast.Expr, scope: Scope) -> Flow:
    expressions.evaluate_discarded(reader, node, scope)
    return Flow.ON


def _assign(reader: Reader, node: ast.Assign, scope: Scope) -> Flow:
    retention.note_own_sum(reader, node, scope)
    value = expressions.evaluate(reader, node.value, scope)
    for target in node.targets:
        assign(reader, target, value, scope)
    return Flow.ON


def _annotated_assign(reader: Reader, node: ast.AnnAssign, scope: Scope) -> Flow:
    if node.value is not None:
        assign(reader, node.target, expressions.evaluate(reader, node.value, scope), scope)
    return Flow.ON


def _augmented_assign(reader: Reader, node: ast.AugAssign, scope: Scope) -> Flow:
    reading = ast.copy_location(_as_load(node.target), node.target)
    before = expressions.evaluate(reader, reading, scope)
    added = expressions.evaluate(reader, node.value, scope)
    if isinstance(node.op, ast.Add):
        retention.note_sum(reader, node.target, node.value, added, scope)
    result = expressions.computed(reader, node, before, added, (node.target, node.value))
    is_counter = bool(reader.loops) and isinstance(result, Constant) and isinstance(result.value, int | float)
    assign(reader, node.target, UNKNOWN if is_counter else result, scope)
    return Flow.ON


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
        case ast.Subscript(value=value, slice=key):
            return ast.copy_location(ast.Subscript(value, key, ast.Load()), target)


def _if(reader: Reader, node: ast.If, scope: Scope) -> Flow:
    return branches.execute_if(reader, node, scope)


def _try(reader: Reader, node: ast.Try | ast.TryStar, scope: Scope) -> Flow:
    return branches.execute_try(reader, node, scope)


def _for(reader: Reader, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
    return loops.execute_for(reader, node, scope)


def _while(reader: Reader, node: ast.While, scope: Scope) -> Flow:
    return loops.execute_while(reader, node, scope)


def _leave_loop(reader: Reader, node: ast.stmt, scope: Scope) -> Flow:
    reader.frame.exits.append(reader.counted(scope.changes_since(reader.frame.loop_start)))
    if isinstance(node, ast.Break):
        _leave(reader, node)
    return Flow.LEAVE_LOOP


def _leave(reader: Reader, node: ast.stmt) -> None:
    if reader.loops:
        reader.act(Act.LEAVE, reader.source.location(node), UNKNOWN)


def _return(reader: Reader, node: ast.Return, scope: Scope) -> Flow:
    value = expressions.evaluate(reader, node.value, scope) if node.value else Constant(None)
    reader.frame.returns.append(value)
    _leave(reader, node)
    return Flow.LEAVE_FUNCTION


def _raise(reader: Reader, node: ast.Raise, scope: Scope) -> Flow:
    if node.exc is not None:
        expressions.evaluate(reader, node.exc, scope)
    _leave(reader, node)
    return Flow.LEAVE_FUNCTION


def _with(reader: Reader, node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
    return contexts.execute_with(reader, node, scope)


def is_without_grad(marks: Sequence[Value]) -> bool:
    """Whether a decorator runs the function with autograd off: `@torch.no_grad()`, also without its brackets."""
    return any(_decorates_off(each) for each in marks)


def _decorates_off(decorator: Value) -> bool:
    match decorator:
        case Library():
            return decorator.path in contexts.NO_GRAD
        case Function() | Unknown():
            return SPEAKS_OF_GRAD.search(decorator.name) is not None
        case _:
            return contexts.turns_grad_off(decorator)


def _define_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Flow:
    function = functions.make_function(reader, node, scope)
    scope.bind(node.name, decorators.decorated(reader, function) if function.decorators else function)
    if not scope.is_class and function.source is None:
        reader.defined.append((function, None))
    return Flow.ON


def _define_class(reader: Reader, node: ast.ClassDef, scope: Scope) -> Flow:
    bases = [expressions.evaluate(reader, base, scope) for base in node.bases]
    marks = tuple(expressions.evaluate(reader, decorator, scope) for decorator in node.decorator_list)
    body = Scope(parent=scope, is_class=True)
    execute_block(reader, node.body, body)
    made = Class(node, bases, body.names, marks, origin=reader.source.location(node))
    value = decorators.decorated(reader, made) if marks else made
    scope.bind(node.name, value if isinstance(value, Class) else made)
    for member in body.names.values():
        if isinstance(member, Function) and member.source is None:
            reader.defined.append((member, made))
    return Flow.ON


def _delete(reader: Reader, node: ast.Delete, scope: Scope) -> Flow:
    for target in node.targets:
        if isinstance(target, ast.Name):
            value = scope.lookup(target.id)
            if value is not None:
                reader.act(Act.DELETE, reader.source.location(target), value)
            scope.unbind(target.id)
        elif isinstance(target, ast.Subscript):
            _delete_item(reader, target, scope)
    return Flow.ON


def _delete_item(reader: Reader, target: ast.Subscript, scope: Scope) -> None:
    held = expressions.evaluate(reader, target.value, scope)
    key = expressions.evaluate(reader, target.slice, scope)
    if isinstance(held, Mapping) and isinstance(key, Constant) and not reader.conditions:
        held.entries.pop(key.value, None)
    elif isinstance(held, Mapping | SequenceValue):
        held.is_complete = False


def _declare_outer(reader: Reader, node: ast.Global | ast.Nonlocal, scope: Scope) -> Flow:
    for name in node.names:
        scope.declare_outer(name, isinstance(node, ast.Global))
    return Flow.ON


def _match(reader: Reader, node: ast.Match, scope: Scope) -> Flow:
    subject = expressions.evaluate(reader, node.subject, scope)
    ways: list[tuple[Sequence[ast.stmt], Condition]] = []
    location, depth = reader.source.location(node), len(reader.loops)
    is_settled = False
    for case in node.cases:
        taken = patterns.takes(reader, case, subject, scope)
        if taken is not False:
            patterns.bind(reader, case.pattern, subject, scope)
            ways.append((case.body, Condition(location, depth)))
        if taken:
            is_settled = True
            break
    if is_settled and len(ways) == 1:
        return execute_block(reader, ways[0][0], scope)
    if not is_settled:
        ways.append(([], Condition(location, depth)))
    return branches.execute_branches(reader, ways, scope)


Handler = Callable[["Reader", Any, Scope], Flow]
"""Any: each handler takes its own node type; the table below pairs them."""

HANDLERS: dict[type[ast.stmt], Handler] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assign,
    ast.AugAssign: _augmented_assign,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Break: _leave_loop,
    ast.Continue: _leave_loop,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.FunctionDef: _define_function,
    ast.AsyncFunctionDef: _define_function,
    ast.ClassDef: _define_class,
    ast.Delete: _delete,
    ast.Global: _declare_outer,
    ast.Nonlocal: _declare_outer,
    ast.Match: _match,
    ast.Import: imports.execute_import,
    ast.ImportFrom: imports.execute_import_from,
}
