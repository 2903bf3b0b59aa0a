"""Statements: what executing them does to names, to the record, and to where execution goes on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lintrain.core.place import Place
from lintrain.pipeline import expressions, imports, invocation, operations, patterns
from lintrain.pipeline.events import Act, Loop
from lintrain.pipeline.flow import Flow
from lintrain.pipeline.scope import Scope, joined
from lintrain.pipeline.targets import assign, assigned_names
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Library,
    LibraryObject,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"})
EXPECTED_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "BaseException"})


def execute_block(reader: Reader, body: Sequence[ast.stmt], scope: Scope) -> Flow:
    """Run statements in order until one leaves the block.

    What follows an `if` that leaves on one side only is itself conditional.
    """
    for position, statement in enumerate(body):
        flow = execute(reader, statement, scope)
        if flow is not Flow.ON:
            return flow
        if isinstance(statement, ast.If | ast.Try) and _may_leave(statement) and not _is_settled(reader, statement):
            with reader.condition(reader.source.place(statement)):
                return execute_block(reader, body[position + 1 :], scope)
    return Flow.ON


def _may_leave(statement: ast.If | ast.Try) -> bool:
    return any(isinstance(node, ast.Return | ast.Continue | ast.Break) for node in ast.walk(statement))


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
    result = operations.binary(reader, before, type(node.op).__name__, added, reader.source.place(node))
    assign(reader, node.target, result, scope)
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
    test = expressions.evaluate(reader, node.test, scope)
    truth = operations.truth(test)
    if truth is not None:
        reader.settled.add(node)
        return execute_block(reader, node.body if truth else node.orelse, scope)
    reader.settled.discard(node)
    place = reader.source.place(node)
    code = ast.unparse(node.test) if len(reader.conditions) < 8 else ""
    guarded = _asks_for_versions(node.test)
    branches = [(node.body, code), (node.orelse, f"not ({code})")]
    return _execute_branches(reader, branches, scope, place, is_guarded=guarded)


def _asks_for_versions(test: ast.expr) -> bool:
    """Whether a test looks like one about versions or availability: what stands below it is meant for some only."""
    words = ("version", "available", "hasattr", "signature", "inspect", "parameters")
    return any(word in ast.unparse(test).lower() for word in words)


def _execute_branches(
    reader: Reader,
    branches: Sequence[tuple[Sequence[ast.stmt], str]],
    scope: Scope,
    place: Place,
    *,
    is_guarded: bool = False,
) -> Flow:
    """Run each branch from the same start; go on with what those leave behind that do go on."""
    before = dict(scope.names)
    ends: list[dict[str, Value]] = []
    flows: list[Flow] = []
    for body, code in branches:
        scope.names = dict(before)
        reader.guards += is_guarded
        with reader.condition(place, code):
            flow = execute_block(reader, body, scope)
        reader.guards -= is_guarded
        flows.append(flow)
        if flow is Flow.ON:
            ends.append(scope.names)
    if ends:
        scope.names = joined(ends)
        return Flow.ON
    return Flow.LEAVE_LOOP if Flow.LEAVE_LOOP in flows else Flow.LEAVE_FUNCTION


def _for(reader: Reader, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
    over = expressions.evaluate(reader, node.iter, scope)
    each = operations.element(reader, over)
    header = reader.source.code(reader.source.place(node.iter))
    loop = Loop(reader.source.place(node), over, each, header, _body_place(reader, node.body))
    _forget_changing(node.body, scope)
    before = dict(scope.names)
    assign(reader, node.target, each, scope)
    return _execute_loop(reader, loop, node.body, node.orelse, scope, before)


def _while(reader: Reader, node: ast.While, scope: Scope) -> Flow:
    _forget_changing(node.body, scope)
    test = expressions.evaluate(reader, node.test, scope)
    if operations.truth(test) is False:
        return execute_block(reader, node.orelse, scope)
    header = reader.source.code(reader.source.place(node.test))
    loop = Loop(reader.source.place(node), UNKNOWN, UNKNOWN, header, _body_place(reader, node.body))
    return _execute_loop(reader, loop, node.body, node.orelse, scope, dict(scope.names))


def _body_place(reader: Reader, body: Sequence[ast.stmt]) -> Place:
    return reader.source.place(body[0])


def _execute_loop(
    reader: Reader,
    loop: Loop,
    body: Sequence[ast.stmt],
    orelse: Sequence[ast.stmt],
    scope: Scope,
    before: dict[str, Value],
) -> Flow:
    reader.record.loops.append(loop)
    reader.loops.append(loop)
    outer_exits, reader.frame.exits = reader.frame.exits, []
    flow = execute_block(reader, body, scope)
    exits, reader.frame.exits = reader.frame.exits, outer_exits
    reader.loops.pop()
    ends = [before, *exits]
    if flow is Flow.ON:
        ends.append(scope.names)
    scope.names = _after_loop(ends)
    return execute_block(reader, orelse, scope)


def _after_loop(ends: list[dict[str, Value]]) -> dict[str, Value]:
    """The names after a loop: a body that bound a name over `None` is taken to have run."""
    for name in list(ends[0]):
        value = ends[0][name]
        if isinstance(value, Constant) and value.value is None and any(end.get(name) is not value for end in ends[1:]):
            del ends[0][name]
    return joined(ends)


def _forget_changing(body: Sequence[ast.stmt], scope: Scope) -> None:
    """A constant that the loop's body assigns is another one in each iteration."""
    for name in assigned_names(body):
        known = scope.names.get(name)
        if isinstance(known, Constant) and known.value is not None:
            scope.names[name] = Unknown(name=name)


def _leave_loop(reader: Reader, node: ast.stmt, scope: Scope) -> Flow:
    reader.frame.exits.append(dict(scope.names))
    return Flow.LEAVE_LOOP


def _return(reader: Reader, node: ast.Return, scope: Scope) -> Flow:
    value = expressions.evaluate(reader, node.value, scope) if node.value else Constant(None)
    reader.frame.returns.append(value)
    return Flow.LEAVE_FUNCTION


def _raise(reader: Reader, node: ast.Raise, scope: Scope) -> Flow:
    if node.exc is not None:
        expressions.evaluate(reader, node.exc, scope)
    return Flow.LEAVE_FUNCTION


def _try(reader: Reader, node: ast.Try | ast.TryStar, scope: Scope) -> Flow:
    before = dict(scope.names)
    expected = any(_expects_missing_names(handler) for handler in node.handlers)
    reader.guards += expected
    flow = execute_block(reader, [*node.body, *node.orelse], scope)
    reader.guards -= expected
    ends = [scope.names] if flow is Flow.ON else []
    for handler in node.handlers:
        scope.names = joined([before, scope.names]) if flow is Flow.ON else dict(before)
        if handler.name:
            scope.names[handler.name] = UNKNOWN
        reader.guards += expected
        with reader.condition(reader.source.place(handler), "except"):
            handled = execute_block(reader, handler.body, scope)
        reader.guards -= expected
        if handled is Flow.ON:
            ends.append(scope.names)
    scope.names = joined(ends) if ends else before
    final = execute_block(reader, node.finalbody, scope)
    return final if final is not Flow.ON or ends else flow


def _expects_missing_names(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & EXPECTED_ERRORS)


def _with(reader: Reader, node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
    without_grad = 0
    for item in node.items:
        manager = expressions.evaluate(reader, item.context_expr, scope)
        without_grad += _turns_grad_off(manager)
        if item.optional_vars is not None:
            assign(reader, item.optional_vars, operations.entered(reader, manager), scope)
    reader.without_grad += without_grad
    flow = execute_block(reader, node.body, scope)
    reader.without_grad -= without_grad
    return flow


def _turns_grad_off(manager: Value) -> bool:
    if isinstance(manager, LibraryObject):
        if manager.path == "torch.set_grad_enabled":
            return operations.truth(manager.arguments.get("0", UNKNOWN)) is not True
        return manager.path in NO_GRAD
    return False


def is_without_grad(decorators: Sequence[Value]) -> bool:
    """Whether a decorator runs the function with autograd off: `@torch.no_grad()`, also without its brackets."""
    return any(_turns_grad_off(each) or (isinstance(each, Library) and each.path in NO_GRAD) for each in decorators)


def _define_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Flow:
    function = invocation.make_function(reader, node, scope)
    scope.bind(node.name, function)
    if not scope.is_class:
        reader.defined.append((function, None))
    return Flow.ON


def _define_class(reader: Reader, node: ast.ClassDef, scope: Scope) -> Flow:
    bases = [expressions.evaluate(reader, base, scope) for base in node.bases]
    decorators = tuple(expressions.evaluate(reader, decorator, scope) for decorator in node.decorator_list)
    body = Scope(parent=scope, is_class=True)
    execute_block(reader, node.body, body)
    made = Class(node, bases, body.names, decorators, origin=reader.source.place(node))
    scope.bind(node.name, made)
    for member in body.names.values():
        if isinstance(member, Function):
            reader.defined.append((member, made))
    return Flow.ON


def _delete(reader: Reader, node: ast.Delete, scope: Scope) -> Flow:
    for target in node.targets:
        if isinstance(target, ast.Name):
            value = scope.lookup(target.id)
            if value is not None:
                reader.act(Act.DELETE, reader.source.place(target), value)
            scope.unbind(target.id)
    return Flow.ON


def _declare_outer(reader: Reader, node: ast.Global | ast.Nonlocal, scope: Scope) -> Flow:
    for name in node.names:
        scope.declare_outer(name, isinstance(node, ast.Global))
    return Flow.ON


def _match(reader: Reader, node: ast.Match, scope: Scope) -> Flow:
    subject = expressions.evaluate(reader, node.subject, scope)
    branches: list[tuple[Sequence[ast.stmt], str]] = []
    for case in node.cases:
        patterns.bind(reader, case.pattern, subject, scope)
        branches.append((case.body, "case"))
    if not any(patterns.takes_all(case) for case in node.cases):
        branches.append(([], "no case"))
    return _execute_branches(reader, branches, scope, reader.source.place(node))


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
