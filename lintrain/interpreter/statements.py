"""Statements: what executing them does to names, to the record, and to where execution goes on.

`with`: what its managers bind, and what they do before and after its body.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard

from lintrain.interpreter import expressions, functions, invocation, objects, project_modules, retention
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.arithmetic import MOST_ITEMS
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import derived_transfer, statement
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.core.storing import assign
from lintrain.interpreter.grad_modes import modes_set, note_change, switches_grad, turns_grad_off
from lintrain.interpreter.invocation import ContextCall
from lintrain.interpreter.layer_shapes import OPEN
from lintrain.knowledge.networks import PARTLY_KNOWN
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.installed import InstalledName
from lintrain.pipeline.values.loading import Loader, OpenFile
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Unknown,
    Value,
    options_of,
)
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports


@statement(ast.Expr)
def _expression(reader: Reader, node: ast.Expr, scope: Scope) -> Flow:
    expressions.evaluate_discarded(reader, node, scope)
    return Flow.ON


@statement(ast.Assign)
def _assign(reader: Reader, node: ast.Assign, scope: Scope) -> Flow:
    retention.note_own_sum(reader, node, scope)
    value = dispatch.evaluate(reader, node.value, scope)
    if reader.latest is not None and (isinstance(node.value, ast.Constant) or _is_made_by(reader, node.value, value)):
        value = reader.shared(node, value)
    for target in node.targets:
        assign(reader, target, value, scope)
    return Flow.ON


def _is_made_by(reader: Reader, node: ast.expr, value: Value) -> bool:
    """Whether a call of a library made a value, so that nothing else has it yet."""
    is_call = isinstance(node, ast.Call) and isinstance(value, LibraryObject)
    return is_call and value.origin == reader.source.location(node)


@statement(ast.AnnAssign)
def _annotated_assign(reader: Reader, node: ast.AnnAssign, scope: Scope) -> Flow:
    if node.value is not None:
        assign(reader, node.target, dispatch.evaluate(reader, node.value, scope), scope)
    return Flow.ON


@statement(ast.AugAssign)
def _augmented_assign(reader: Reader, node: ast.AugAssign, scope: Scope) -> Flow:
    reading = ast.copy_location(_as_load(node.target), node.target)
    before = dispatch.evaluate(reader, reading, scope)
    added = dispatch.evaluate(reader, node.value, scope)
    if isinstance(node.op, ast.Add):
        retention.note_sum(reader, node.target, node.value, added, scope)
    note_change(reader, before, reader.source.location(node), reader.code(reader.source.location(node.target)))
    if isinstance(node.op, ast.Add) and _is_list(before) and (_is_list(added) or _grows_by_rows(before, added)):
        # The list itself grows, under all of its names; `result = result + [...]` is another one.
        items = operations.known_items(added, MOST_ITEMS)
        operations.extend(
            reader, before, operations.literal_items(added) if items is None else items, is_known=items is not None
        )
        return Flow.ON
    result = expressions.computed(reader, node, before, added, (node.target, node.value))
    # `step += 1` in a loop is another number in each iteration, and one that is known would decide tests
    # about it.
    is_counter = bool(reader.loops) and isinstance(result, Constant) and isinstance(result.value, int | float)
    assign(reader, node.target, UNKNOWN if is_counter else result, scope)
    return Flow.ON


def _is_list(value: Value) -> TypeGuard[SequenceValue]:
    return isinstance(value, SequenceValue) and value.kind == "list"


def _grows_by_rows(before: SequenceValue, added: Value) -> bool:
    """Whether a list of literals and of what is not known grows by token ids, or by something unknown: `+= ids[1:]`."""
    options = options_of(added)
    lists = [each for each in options if _is_list(each)]
    rows = [each for each in options if isinstance(each, Unknown | ColumnValues)]
    held = [*before.items, *(item for each in lists for item in each.items)]
    return (
        bool(rows)
        and len(rows) + len(lists) == len(options)
        and all(isinstance(each, Constant | Unknown | ColumnValues) for each in held)
    )


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
        case ast.Subscript(value=value, slice=key):
            return ast.copy_location(ast.Subscript(value, key, ast.Load()), target)


@statement(ast.Break, ast.Continue)
def _leave_loop(reader: Reader, node: ast.stmt, scope: Scope) -> Flow:
    # The loop joins these with the end of its body: each exit is one more way in which an iteration may
    # end.
    reader.frame.exits.append(reader.counted(scope.changes_since(reader.frame.loop_start)))
    if isinstance(node, ast.Break):
        _leave(reader, node)
    return Flow.LEAVE_LOOP


def _leave(reader: Reader, node: ast.stmt) -> None:
    """Note that a loop ends here; a `return` of a function that the loop calls ends the function alone."""
    location = reader.source.location(node)
    if reader.loops and reader.loops[-1].location.holds(location):
        reader.act(Act.LEAVE, location, UNKNOWN)


@statement(ast.Return)
def _return(reader: Reader, node: ast.Return, scope: Scope) -> Flow:
    value = dispatch.evaluate(reader, node.value, scope) if node.value else Constant(None)
    reader.frame.returns.append(value)
    _leave(reader, node)
    return Flow.LEAVE_FUNCTION


@statement(ast.Raise)
def _raise(reader: Reader, node: ast.Raise, scope: Scope) -> Flow:
    if node.exc is not None:
        dispatch.evaluate(reader, node.exc, scope)
    _leave(reader, node)
    return Flow.LEAVE_FUNCTION


@statement(ast.FunctionDef, ast.AsyncFunctionDef)
def _define_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> Flow:
    function = functions.make_function(reader, node, scope)
    if reader.latest is not None and not scope.is_class:
        function = reader.shared(node, function)
    scope.bind(node.name, functions.decorated(reader, function) if function.decorators else function)
    if not scope.is_class and function.source is None:
        reader.defined.append((function, None))
    return Flow.ON


@statement(ast.ClassDef)
def _define_class(reader: Reader, node: ast.ClassDef, scope: Scope) -> Flow:
    bases = list(_with_bases_above(dispatch.evaluate(reader, base, scope) for base in node.bases))
    marks = tuple(dispatch.evaluate(reader, decorator, scope) for decorator in node.decorator_list)
    body = Scope(parent=scope, is_class=True)
    dispatch.execute_block(reader, node.body, body)
    made = Class(node, bases, body.names, marks, origin=reader.source.location(node))
    value = functions.decorated(reader, made) if marks else made
    scope.bind(node.name, value if isinstance(value, Class) else made)
    # Methods are read at the end if nothing calls them: Lightning and Trainer call them by name.
    for member in body.names.values():
        if isinstance(member, Function) and member.source is None:
            reader.defined.append((member, made))
    return Flow.ON


def _with_bases_above(bases: Iterable[Value]) -> Iterator[Value]:
    """The bases of a class, and after one of an installed package the trainers and arguments that it derives from."""
    for base in bases:
        # What a class inherits from one of a package that is known for a few functions alone is not known.
        is_partly = isinstance(base, Library) and base.path.partition(".")[0] in PARTLY_KNOWN
        yield Unknown(name=base.path) if is_partly and isinstance(base, Library) else base
        if isinstance(base, InstalledName) and derived_transfer(base.facts) is not None:
            yield from (Library(path) for path in base.facts.bases)


@statement(ast.Delete)
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
    held = dispatch.evaluate(reader, target.value, scope)
    key = dispatch.evaluate(reader, target.slice, scope)
    if isinstance(held, Mapping) and isinstance(key, Constant) and not reader.conditions:
        held.entries.pop(key.value, None)
    # Which item is gone is not known, or whether it is: what remains may be less than what is known.
    elif isinstance(held, Mapping | SequenceValue):
        held.is_complete = False
    elif isinstance(held, Module):
        held.arguments[OPEN] = UNKNOWN


@statement(ast.Global, ast.Nonlocal)
def _declare_outer(reader: Reader, node: ast.Global | ast.Nonlocal, scope: Scope) -> Flow:
    for name in node.names:
        scope.declare_outer(name, isinstance(node, ast.Global))
    return Flow.ON


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
    turns_off = turns_grad_off(manager) and not _is_of_python(reader, item.context_expr)
    switch = _switch_of(item) if switches_grad(manager) else ()
    # Counted up before the body and down after it, so that nested managers leave the state of the outer
    # one.
    reader.without_grad += turns_off
    reader.grad_switches.extend(switch)
    known = len(reader.grad_modes)
    reader.grad_modes.extend(modes_set(manager))
    flow = inside(_entered(reader, manager, item))
    _leave_context(reader, manager, item)
    del reader.grad_modes[known:]
    reader.without_grad -= turns_off
    del reader.grad_switches[len(reader.grad_switches) - len(switch) :]
    return flow


def _is_of_python(reader: Reader, made: ast.expr) -> bool:
    """Whether a manager is one of Python's own, which knows nothing of autograd: `tempfile.TemporaryDirectory()`."""
    while isinstance(made, ast.Call | ast.Attribute):
        made = made.func if isinstance(made, ast.Call) else made.value
    return isinstance(made, ast.Name) and made.id in reader.source.cached(_names_of_python)


def _names_of_python(source: Source) -> frozenset[str]:
    """The names that a file imports from Python's own packages, without `contextlib`, whose stacks hold anything."""
    found = set[str]()
    for node in imports(source):
        for alias in node.names:
            path = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            package = path.partition(".")[0]
            if package in sys.stdlib_module_names and package != "contextlib":
                found.add((alias.asname or alias.name).partition(".")[0])
    return frozenset(found)


def _switch_of(item: ast.withitem) -> tuple[str, ...]:
    """The code of the argument of `set_grad_enabled`, or of the manager where it has a name."""
    match item.context_expr:
        case ast.Call(args=[argument]) | ast.Call(keywords=[ast.keyword(value=argument)]):
            return (unparse(argument),)
        case manager:
            return (unparse(manager),)


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
        case LibraryObject(path="apex.amp.scale_loss"):
            # Only a factor is between the two, and `step` divides by it.
            return manager.arguments["0"]
        case _:
            # Of loaders and lists none can be entered: `with tqdm(loader) as bar` gives what the bar goes through.
            kept = LibraryObject | OpenFile | Loader | SequenceValue
            return manager if isinstance(manager, kept) else UNKNOWN


def _leave_context(reader: Reader, manager: Value, item: ast.withitem) -> None:
    if isinstance(manager, Instance):
        nothing: list[Value] = [Constant(None)] * 3
        objects.special(reader, manager, "__exit__", nothing, reader.source.location(item.context_expr))
